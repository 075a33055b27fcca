"""AutoTVM's commands for measuring on other machines, as thin forms of Dask's and of `tensorir`.

python -m search.compat.autotvm.exec.rpc_tracker --port 9190                 a Dask scheduler
python -m search.compat.autotvm.exec.rpc_server --tracker host:9190          `tensorir worker`
python -m search.compat.autotvm.exec.query_rpc_tracker --host host --port 9190

All need the credentials that the tracker makes, see `search.runner.distributed.credentials`.
"""

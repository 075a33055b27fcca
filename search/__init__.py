"""The search for good schedules. It builds on `schedule` and `codegen`."""

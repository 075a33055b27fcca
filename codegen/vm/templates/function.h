/* $values */
int32_t $function(const tensorir_tensor *inputs, tensorir_tensor *outputs,
    tensorir_workspace *workspace);
int32_t ${function}_shapes(const tensorir_tensor *inputs, tensorir_tensor *outputs);

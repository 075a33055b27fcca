"""GPUs: from device programs to kernels, the devices that run them, and reports about kernels."""

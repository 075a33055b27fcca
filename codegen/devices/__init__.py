"""Kernels of GPUs: how programs become them, and the devices and arrays they run with"""

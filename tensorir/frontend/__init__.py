"""Trained models as modules with a graph function `main`.

A model file is data: reading it executes nothing, and reads nothing outside of its folder.
"""

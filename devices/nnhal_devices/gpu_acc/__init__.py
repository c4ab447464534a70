"""gpu_acc: an emulated OpenCL-class GPU. Floats only, an in-order command queue, results visible after a sync."""

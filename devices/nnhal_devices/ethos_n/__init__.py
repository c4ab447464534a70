"""ethos_n: an emulated NPU of the Arm Ethos-N77 and N78's class. 8-bit networks only; its limits are in README.md."""

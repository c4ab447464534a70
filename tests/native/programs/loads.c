/* Loads the library by name, with its symbols to itself, closes it, and loads it again. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(void) {
  for (int round = 0; round < 3; ++round) {
    void* library = dlopen("libneuralnetworks.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) return puts(dlerror()), 1;
    int (*count)(uint32_t*) = (int (*)(uint32_t*))dlsym(library, "ANeuralNetworks_getDeviceCount");
    uint32_t found;
    if (count(&found)) return 1;
    printf("%u devices\n", found);
    dlclose(library);
  }
  return 0;
}

// There are no hardware buffers here: one cannot be allocated, and its tests end at that.
#pragma once
#include <cstdint>
struct AHardwareBuffer;
struct AHardwareBuffer_Desc {
  uint32_t width, height, layers, format;
  uint64_t usage;
  uint32_t stride, rfu0;
  uint64_t rfu1;
};
enum { AHARDWAREBUFFER_FORMAT_BLOB = 0x21, AHARDWAREBUFFER_FORMAT_R8G8B8A8_UNORM = 1 };
enum { AHARDWAREBUFFER_USAGE_CPU_READ_OFTEN = 3, AHARDWAREBUFFER_USAGE_CPU_WRITE_OFTEN = 3 << 4,
       AHARDWAREBUFFER_USAGE_CPU_READ_RARELY = 2, AHARDWAREBUFFER_USAGE_CPU_WRITE_RARELY = 2 << 4,
       AHARDWAREBUFFER_USAGE_GPU_DATA_BUFFER = 1 << 24 };
inline int AHardwareBuffer_allocate(const AHardwareBuffer_Desc*, AHardwareBuffer** buffer) {
  *buffer = nullptr;
  return -1;
}
inline int AHardwareBuffer_lock(AHardwareBuffer*, uint64_t, int, const void*, void**) { return -1; }
inline int AHardwareBuffer_unlock(AHardwareBuffer*, int*) { return -1; }
inline void AHardwareBuffer_release(AHardwareBuffer*) {}
inline void AHardwareBuffer_describe(const AHardwareBuffer*, AHardwareBuffer_Desc*) {}

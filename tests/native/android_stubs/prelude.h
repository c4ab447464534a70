// Read before each file: all of NeuralNetworks.h is there, as on the newest system.
#pragma once
#define __INTRODUCED_IN(level)
#define __builtin_available(...) true
#define __ANDROID_API_FUTURE__ 10000
#define __ANDROID_API_Q__ 29
#define __ANDROID_API_R__ 30
#define __ANDROID_API_S__ 31
#define __ANDROID_API__ __ANDROID_API_FUTURE__
#ifdef __cplusplus
#include <algorithm>
#include <optional>
#endif

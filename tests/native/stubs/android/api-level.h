#pragma once
#define __ANDROID_API_FUTURE__ 10000
inline int android_get_device_api_level() { return __ANDROID_API_FUTURE__; }

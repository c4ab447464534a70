#pragma once
inline int android_get_device_api_level() { return __ANDROID_API__; }

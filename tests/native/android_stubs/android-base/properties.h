#pragma once
#include <string>
namespace android::base {
inline std::string GetProperty(const std::string&, const std::string& otherwise) { return otherwise; }
inline bool GetBoolProperty(const std::string&, bool otherwise) { return otherwise; }
template <typename T>
T GetIntProperty(const std::string&, T otherwise, T = 0, T = 0) { return otherwise; }
}  // namespace android::base

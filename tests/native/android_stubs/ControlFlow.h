#pragma once
#include <cstdint>
namespace operation_while {
constexpr uint64_t kTimeoutNsDefault = 2'000'000'000, kTimeoutNsMaximum = 15'000'000'000;
}

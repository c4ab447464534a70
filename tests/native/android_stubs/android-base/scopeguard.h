#pragma once
#include <utility>

namespace android::base {
template <typename F>
struct ScopeGuard {
  explicit ScopeGuard(F f) : f(std::move(f)) {}
  ScopeGuard(ScopeGuard&& other) : f(std::move(other.f)), is_on(std::exchange(other.is_on, false)) {}
  ~ScopeGuard() {
    if (is_on) f();
  }
  void Disable() { is_on = false; }
  F f;
  bool is_on = true;
};
template <typename F>
ScopeGuard<F> make_scope_guard(F f) { return ScopeGuard<F>(std::move(f)); }
}  // namespace android::base

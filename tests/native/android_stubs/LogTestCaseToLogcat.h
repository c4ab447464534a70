#pragma once
#include <gtest/gtest.h>
namespace android::nn {
class LogTestCaseToLogcat : public ::testing::EmptyTestEventListener {};
}  // namespace android::nn

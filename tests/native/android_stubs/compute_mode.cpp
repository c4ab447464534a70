// What AOSP defines in a file of its own library.
#include "TestNeuralNetworksWrapper.h"

namespace android::nn::test_wrapper {
Execution::ComputeMode Execution::mComputeMode = Execution::ComputeMode::SYNC;
}

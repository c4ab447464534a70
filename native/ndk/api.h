// What libneuralnetworks.so and its callers share: the structures and numbers of the NDK's NeuralNetworks API, feature
// level 8, as far as the library reads them.
#ifndef NNHAL_NDK_API_H_
#define NNHAL_NDK_API_H_

#include <cstddef>
#include <cstdint>

namespace nnhal::ndk {

// ANEURALNETWORKS_NO_ERROR and the other result codes.
enum ResultCode : int {
  kNoError = 0,
  kOutOfMemory = 1,
  kIncomplete = 2,
  kUnexpectedNull = 3,
  kBadData = 4,
  kOpFailed = 5,
  kBadState = 6,
  kUnmappable = 7,
  kOutputInsufficientSize = 8,
  kUnavailableDevice = 9,
  kMissedDeadlineTransient = 10,
  kMissedDeadlinePersistent = 11,
  kResourceExhaustedTransient = 12,
  kResourceExhaustedPersistent = 13,
  kDeadObject = 14,
};

// ANeuralNetworksOperandType.
struct OperandType {
  std::int32_t type;
  std::uint32_t dimension_count;
  const std::uint32_t* dimensions;
  float scale;
  std::int32_t zero_point;
};

// ANeuralNetworksSymmPerChannelQuantParams.
struct ChannelQuantisation {
  std::uint32_t channel_dim;
  std::uint32_t scale_count;
  const float* scales;
};

constexpr std::int64_t kFeatureLevel = 1000008;
constexpr std::uint32_t kCacheTokenBytes = 32;
constexpr std::uint32_t kImmediatelyCopiedBytes = 128;
constexpr std::uint64_t kDefaultLoopTimeoutNs = 2'000'000'000;
constexpr std::uint64_t kMaximumLoopTimeoutNs = 15'000'000'000;
// A time that is unknown.
constexpr std::uint64_t kUnknownDuration = UINT64_MAX;
// What buffers should be aligned and padded to: a cache line.
constexpr std::uint32_t kPreferredAlignment = 64;

inline std::size_t aligned(std::size_t size) {
  return (size + kPreferredAlignment - 1) / kPreferredAlignment * kPreferredAlignment;
}

// Types of operands and operations that have a name here; docs/reference/operations.md has all of them.
constexpr std::int32_t kTensorQuant8SymmPerChannel = 11;
constexpr std::int32_t kSubgraph = 15;  // ANEURALNETWORKS_MODEL
constexpr std::int32_t kOemScalar = 10000, kTensorOemByte = 10001, kOemOperation = 10000;

inline bool is_extension(std::int32_t code) { return code >= 0x10000; }
inline bool is_oem(std::int32_t type) { return type == kOemScalar || type == kTensorOemByte; }

}  // namespace nnhal::ndk

#endif  // NNHAL_NDK_API_H_

// The part of ONNX Runtime's C API that the provider uses, declared by the places that functions have in its tables.
//
// The tables only grow, so that a place is good for every later version. Nothing of a version above kApiVersion is
// used: ONNX Runtime hands the same tables to a library that asks for less than it has.
#ifndef NNHAL_ORT_EP_ONNXRUNTIME_H_
#define NNHAL_ORT_EP_ONNXRUNTIME_H_

#include <cstddef>
#include <cstdint>

namespace nnhal::ort_ep {

constexpr std::uint32_t kApiVersion = 24;  // of ONNX Runtime 1.24

struct OrtStatus;
struct OrtLogger;
struct OrtValue;
struct OrtTypeInfo;
struct OrtTensorTypeAndShapeInfo;
struct OrtValueInfo;
struct OrtOpAttr;
struct OrtNode;
struct OrtGraph;
struct OrtKernelContext;
struct OrtSessionOptions;
struct OrtKeyValuePairs;
struct OrtMemoryInfo;
struct OrtMemoryDevice;
struct OrtHardwareDevice;
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtNodeComputeContext;
struct OrtSyncStream;
struct OrtEp;
struct OrtEpFactory;
struct OrtExternalInitializerInfo;

// Statuses. kEpFail is never returned: ONNX Runtime's Python would make the session anew, on the CPU.
constexpr int kFail = 1;

enum Severity : int { kVerbose = 0, kInfo = 1, kWarning = 2 };

enum AttributeType : int {
  kInt = 1,
  kInts = 2,
  kFloat = 3,
  kFloats = 4,
  kString = 5,
  kStrings = 6,
  kGraph = 7,
  kTensor = 8,
};

enum HardwareType : int { kCpu = 0, kGpu = 1, kNpu = 2 };

constexpr int kMemoryOfNpu = 3;    // OrtMemoryInfoDeviceType
constexpr int kMemoryDefault = 0;  // OrtDeviceMemoryType
constexpr int kMemoryHostAccessible = 5;
constexpr int kDeviceAllocator = 0;  // OrtAllocatorType

// F(place, what it returns, name, arguments)
#define NNHAL_ORT_API(F)                                                                                          \
  F(0, OrtStatus*, CreateStatus, (int code, const char* text))                                                    \
  F(2, const char*, GetErrorMessage, (const OrtStatus*))                                                          \
  F(51, OrtStatus*, GetTensorMutableData, (OrtValue*, void** data))                                               \
  F(55, OrtStatus*, CastTypeInfoToTensorInfo, (const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo**))            \
  F(60, OrtStatus*, GetTensorElementType, (const OrtTensorTypeAndShapeInfo*, int* type))                          \
  F(61, OrtStatus*, GetDimensionsCount, (const OrtTensorTypeAndShapeInfo*, std::size_t*))                         \
  F(62, OrtStatus*, GetDimensions, (const OrtTensorTypeAndShapeInfo*, std::int64_t*, std::size_t))                \
  F(63, OrtStatus*, GetSymbolicDimensions, (const OrtTensorTypeAndShapeInfo*, const char**, std::size_t))         \
  F(65, OrtStatus*, GetTensorTypeAndShape, (const OrtValue*, OrtTensorTypeAndShapeInfo**))                        \
  F(90, OrtStatus*, KernelContext_GetInput, (const OrtKernelContext*, std::size_t, const OrtValue**))             \
  F(91, OrtStatus*, KernelContext_GetOutput,                                                                      \
    (OrtKernelContext*, std::size_t, const std::int64_t* dimensions, std::size_t rank, OrtValue**))               \
  F(93, void, ReleaseStatus, (OrtStatus*))                                                                        \
  F(96, void, ReleaseValue, (OrtValue*))                                                                          \
  F(99, void, ReleaseTensorTypeAndShapeInfo, (OrtTensorTypeAndShapeInfo*))                                        \
  F(211, OrtStatus*, CreateOpAttr, (const char* name, const void* data, int length, int type, OrtOpAttr**))       \
  F(212, void, ReleaseOpAttr, (OrtOpAttr*))                                                                       \
  F(247, OrtStatus*, Logger_LogMessage,                                                                           \
    (const OrtLogger*, int severity, const char* text, const char* file, int line, const char* function))         \
  F(272, OrtStatus*, ReadOpAttr, (const OrtOpAttr*, int type, void* data, std::size_t room, std::size_t* size))   \
  F(289, OrtStatus*, GetValueInfoName, (const OrtValueInfo*, const char**))                                       \
  F(290, OrtStatus*, GetValueInfoTypeInfo, (const OrtValueInfo*, const OrtTypeInfo**))                            \
  F(291, const void* const*, GetModelEditorApi, ())                                                               \
  F(295, void, CreateKeyValuePairs, (OrtKeyValuePairs**))                                                         \
  F(296, void, AddKeyValuePair, (OrtKeyValuePairs*, const char* key, const char* value))                          \
  F(297, const char*, GetKeyValue, (const OrtKeyValuePairs*, const char* key))                                    \
  F(298, void, GetKeyValuePairs,                                                                                  \
    (const OrtKeyValuePairs*, const char* const** keys, const char* const** values, std::size_t*))                \
  F(300, void, ReleaseKeyValuePairs, (OrtKeyValuePairs*))                                                         \
  F(307, int, HardwareDevice_Type, (const OrtHardwareDevice*))                                                    \
  F(317, const void* const*, GetEpApi, ())                                                                        \
  F(318, OrtStatus*, GetTensorSizeInBytes, (const OrtValue*, std::size_t*))                                       \
  F(320, OrtStatus*, CreateMemoryInfo_V2,                                                                         \
    (const char* name, int device_type, std::uint32_t vendor, std::int32_t device, int memory_type,               \
     std::size_t alignment, int allocator_type, OrtMemoryInfo**))                                                 \
  F(326, OrtStatus*, ValueInfo_GetInitializerValue, (const OrtValueInfo*, const OrtValue**))                      \
  F(327, OrtStatus*, ValueInfo_GetExternalInitializerInfo,                                                        \
    (const OrtValueInfo*, OrtExternalInitializerInfo**))                                                          \
  F(331, OrtStatus*, ValueInfo_IsConstantInitializer, (const OrtValueInfo*, bool*))                               \
  F(334, OrtStatus*, Graph_GetModelPath, (const OrtGraph*, const char**))                                         \
  F(335, OrtStatus*, Graph_GetOnnxIRVersion, (const OrtGraph*, std::int64_t*))                                    \
  F(336, OrtStatus*, Graph_GetNumOperatorSets, (const OrtGraph*, std::size_t*))                                   \
  F(337, OrtStatus*, Graph_GetOperatorSets,                                                                       \
    (const OrtGraph*, const char** domains, std::int64_t* versions, std::size_t))                                 \
  F(338, OrtStatus*, Graph_GetNumInputs, (const OrtGraph*, std::size_t*))                                         \
  F(339, OrtStatus*, Graph_GetInputs, (const OrtGraph*, const OrtValueInfo**, std::size_t))                       \
  F(340, OrtStatus*, Graph_GetNumOutputs, (const OrtGraph*, std::size_t*))                                        \
  F(341, OrtStatus*, Graph_GetOutputs, (const OrtGraph*, const OrtValueInfo**, std::size_t))                      \
  F(342, OrtStatus*, Graph_GetNumInitializers, (const OrtGraph*, std::size_t*))                                   \
  F(343, OrtStatus*, Graph_GetInitializers, (const OrtGraph*, const OrtValueInfo**, std::size_t))                 \
  F(344, OrtStatus*, Graph_GetNumNodes, (const OrtGraph*, std::size_t*))                                          \
  F(345, OrtStatus*, Graph_GetNodes, (const OrtGraph*, const OrtNode**, std::size_t))                             \
  F(346, OrtStatus*, Graph_GetParentNode, (const OrtGraph*, const OrtNode**))                                     \
  F(349, OrtStatus*, Node_GetName, (const OrtNode*, const char**))                                                \
  F(350, OrtStatus*, Node_GetOperatorType, (const OrtNode*, const char**))                                        \
  F(351, OrtStatus*, Node_GetDomain, (const OrtNode*, const char**))                                              \
  F(353, OrtStatus*, Node_GetNumInputs, (const OrtNode*, std::size_t*))                                           \
  F(354, OrtStatus*, Node_GetInputs, (const OrtNode*, const OrtValueInfo**, std::size_t))                         \
  F(355, OrtStatus*, Node_GetNumOutputs, (const OrtNode*, std::size_t*))                                          \
  F(356, OrtStatus*, Node_GetOutputs, (const OrtNode*, const OrtValueInfo**, std::size_t))                        \
  F(357, OrtStatus*, Node_GetNumImplicitInputs, (const OrtNode*, std::size_t*))                                   \
  F(358, OrtStatus*, Node_GetImplicitInputs, (const OrtNode*, const OrtValueInfo**, std::size_t))                 \
  F(359, OrtStatus*, Node_GetNumAttributes, (const OrtNode*, std::size_t*))                                       \
  F(360, OrtStatus*, Node_GetAttributes, (const OrtNode*, const OrtOpAttr**, std::size_t))                        \
  F(362, OrtStatus*, OpAttr_GetTensorAttributeAsOrtValue, (const OrtOpAttr*, OrtValue**))                         \
  F(363, OrtStatus*, OpAttr_GetType, (const OrtOpAttr*, int*))                                                    \
  F(364, OrtStatus*, OpAttr_GetName, (const OrtOpAttr*, const char**))                                            \
  F(365, OrtStatus*, Node_GetNumSubgraphs, (const OrtNode*, std::size_t*))                                        \
  F(366, OrtStatus*, Node_GetSubgraphs, (const OrtNode*, const OrtGraph**, std::size_t, const char** attributes)) \
  F(369, void, ReleaseExternalInitializerInfo, (OrtExternalInitializerInfo*))                                     \
  F(370, const char*, ExternalInitializerInfo_GetFilePath, (const OrtExternalInitializerInfo*))                   \
  F(371, std::int64_t, ExternalInitializerInfo_GetFileOffset, (const OrtExternalInitializerInfo*))                \
  F(372, std::size_t, ExternalInitializerInfo_GetByteSize, (const OrtExternalInitializerInfo*))                   \
  F(379, OrtStatus*, GetSessionOptionsConfigEntries, (const OrtSessionOptions*, OrtKeyValuePairs**))              \
  F(390, bool, TensorTypeAndShape_HasShape, (const OrtTensorTypeAndShapeInfo*))

#define NNHAL_ORT_EP_API(F)                                                                                           \
  F(0, OrtStatus*, CreateEpDevice,                                                                                    \
    (OrtEpFactory*, const OrtHardwareDevice*, const OrtKeyValuePairs* metadata, const OrtKeyValuePairs* options,      \
     OrtEpDevice**))                                                                                                  \
  F(2, OrtStatus*, EpGraphSupportInfo_AddNodesToFuse,                                                                 \
    (OrtEpGraphSupportInfo*, const OrtNode* const*, std::size_t, const struct OrtNodeFusionOptions*))                 \
  F(5, OrtStatus*, EpDevice_AddAllocatorInfo, (OrtEpDevice*, const OrtMemoryInfo*))                                   \
  F(16, OrtStatus*, CreateHardwareDevice,                                                                             \
    (int type, std::uint32_t vendor, std::uint32_t device, const char* vendor_name, const OrtKeyValuePairs* metadata, \
     OrtHardwareDevice**))

#define NNHAL_ORT_EDITOR_API(F)                                                                      \
  F(6, OrtStatus*, CreateNode,                                                                       \
    (const char* type, const char* domain, const char* name, const char* const* inputs, std::size_t, \
     const char* const* outputs, std::size_t, OrtOpAttr** attributes, std::size_t, OrtNode**))

#define NNHAL_DECLARE(place, returns, name, arguments) returns(*name) arguments = nullptr;
// The functions of all three tables, filled in when the library is registered.
struct Api {
  NNHAL_ORT_API(NNHAL_DECLARE)
  NNHAL_ORT_EP_API(NNHAL_DECLARE)
  NNHAL_ORT_EDITOR_API(NNHAL_DECLARE)
};
#undef NNHAL_DECLARE

struct OrtApiBase {
  const void* const* (*GetApi)(std::uint32_t version);
  const char* (*GetVersionString)();
};

// What the provider fills in. Functions that it leaves out are null, which ONNX Runtime takes for "not there".

struct OrtNodeFusionOptions {
  std::uint32_t ort_version_supported;
  bool drop_constant_initializers;
};

struct OrtNodeComputeInfo {
  std::uint32_t ort_version_supported;
  OrtStatus* (*CreateState)(OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state);
  OrtStatus* (*Compute)(OrtNodeComputeInfo*, void* state, OrtKernelContext*);
  void (*ReleaseState)(OrtNodeComputeInfo*, void* state);
};

struct OrtAllocator {
  std::uint32_t version;
  void* (*Alloc)(OrtAllocator*, std::size_t);
  void (*Free)(OrtAllocator*, void*);
  const OrtMemoryInfo* (*Info)(const OrtAllocator*);
  void* (*Reserve)(OrtAllocator*, std::size_t);
  OrtStatus* (*GetStats)(const OrtAllocator*, OrtKeyValuePairs**);
  void* (*AllocOnStream)(OrtAllocator*, std::size_t, OrtSyncStream*);
};

struct OrtEp {
  std::uint32_t ort_version_supported;
  const char* (*GetName)(const OrtEp*);
  OrtStatus* (*GetCapability)(OrtEp*, const OrtGraph*, OrtEpGraphSupportInfo*);
  OrtStatus* (*Compile)(OrtEp*, const OrtGraph**, const OrtNode** fused, std::size_t, OrtNodeComputeInfo**,
                        OrtNode** contexts);
  void (*ReleaseNodeComputeInfos)(OrtEp*, OrtNodeComputeInfo**, std::size_t);
  void* others[20];  // none of which the provider has
};

struct OrtEpFactory {
  std::uint32_t ort_version_supported;
  const char* (*GetName)(const OrtEpFactory*);
  const char* (*GetVendor)(const OrtEpFactory*);
  OrtStatus* (*GetSupportedDevices)(OrtEpFactory*, const OrtHardwareDevice* const*, std::size_t, OrtEpDevice** found,
                                    std::size_t room, std::size_t* count);
  OrtStatus* (*CreateEp)(OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const* metadata,
                         std::size_t, const OrtSessionOptions*, const OrtLogger*, OrtEp**);
  void (*ReleaseEp)(OrtEpFactory*, OrtEp*);
  std::uint32_t (*GetVendorId)(const OrtEpFactory*);
  const char* (*GetVersion)(const OrtEpFactory*);
  void* ValidateCompiledModelCompatibilityInfo;
  OrtStatus* (*CreateAllocator)(OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*, OrtAllocator**);
  void (*ReleaseAllocator)(OrtEpFactory*, OrtAllocator*);
  OrtStatus* (*CreateDataTransfer)(OrtEpFactory*, struct OrtDataTransferImpl**);
  bool (*IsStreamAware)(const OrtEpFactory*);
  void* others[8];
};

}  // namespace nnhal::ort_ep

#endif  // NNHAL_ORT_EP_ONNXRUNTIME_H_

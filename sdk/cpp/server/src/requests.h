// Requests: checked against the model, and bound to memory.
#ifndef NNHAL_SERVER_REQUESTS_H_
#define NNHAL_SERVER_REQUESTS_H_

#include "runs.h"

namespace nnhal {

// Opens the pool of an index, of a description that is valid.
using PoolOpener = std::function<std::shared_ptr<Pool>(int index, const PoolSource& source, bool writable)>;

// Binds a request to memory. Throws INVALID_ARGUMENT if request or config are invalid, or if an output has no known size and
// may not; GENERAL_FAILURE if a pool cannot be used.
std::shared_ptr<Execution> bound_execution(std::shared_ptr<PreparedModel> prepared, const v1::Request& request,
                                           const v1::ExecutionConfig& config, const DescriptorTable& descriptors,
                                           bool allow_unknown_outputs = true, const PoolOpener& open = nullptr);

// Checks hints: tokens are unique, and each has a prefix that is mapped to an extension. Throws INVALID_ARGUMENT.
void validate_hints(const google::protobuf::RepeatedPtrField<v1::TokenValuePair>& hints,
                    const google::protobuf::RepeatedPtrField<v1::ExtensionNameAndPrefix>& names);

}  // namespace nnhal

#endif  // NNHAL_SERVER_REQUESTS_H_

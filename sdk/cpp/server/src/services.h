// The services of the contract over gRPC, and those for operators. Only what includes this has gRPC's headers.
#ifndef NNHAL_SERVER_SERVICES_H_
#define NNHAL_SERVER_SERVICES_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runs.h"

namespace nnhal {

// The status that carries a failure, as docs/messages.md has it.
grpc::Status status_of(const Failure& failure);

// Does the work of a call, and returns how it ended.
grpc::Status answered(const char* method, const std::function<void()>& work);

// The session of a call. Throws INVALID_ARGUMENT.
std::shared_ptr<Session> session_of(const Device& device, const grpc::ServerContext& context);
std::string metadata_of(const grpc::ServerContext& context, const char* key);

// The services that make up a device.
std::vector<std::unique_ptr<grpc::Service>> contract_services(Device& device);

// What operators may do; `exit` ends the process with status 75.
struct Oversight {
  std::string admin_key;  // empty if nobody is an operator
  bool is_supervised = false;
  std::function<void()> exit;
};
std::vector<std::unique_ptr<grpc::Service>> operator_services(Device& device, const Oversight& oversight);

// The names of all of them, which health reports as serving.
extern const std::vector<std::string> kServiceNames;

}  // namespace nnhal

#endif  // NNHAL_SERVER_SERVICES_H_

// Models: decoded, checked as far as no operation is concerned, and with their constants.
#ifndef NNHAL_SERVER_MODELS_H_
#define NNHAL_SERVER_MODELS_H_

#include <memory>

#include "descriptors.h"
#include "nnhal/device.h"

namespace nnhal {

// Checks a model and maps its constants, read-only. What an operation takes is for the driver to say.
//
// Throws INVALID_ARGUMENT, and GENERAL_FAILURE if a pool cannot be read.
std::shared_ptr<const Model> received_model(v1::Model message, const DescriptorTable& descriptors);

// "operation 3 (ADD)": for messages.
std::string described_operation(const v1::Model& model, int index);
// "12 operations: 5 CONV_2D, 4 ADD, 2 RELU and others".
std::string summary_of(const v1::Model& model);

}  // namespace nnhal

#endif  // NNHAL_SERVER_MODELS_H_

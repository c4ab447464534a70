// Options of a load as a user writes them: texts by name, as programs and runtimes pass them on.
#ifndef NNHAL_CLIENT_LOAD_OPTIONS_H_
#define NNHAL_CLIENT_LOAD_OPTIONS_H_

#include <string>
#include <vector>

#include "framework.h"

namespace nnhal::client {

// Sets the option of that name. INVALID_ARGUMENT if it has a value that it cannot have, and if there is none such: the
// text then says which there are, with the `others` that the caller knows.
Status set(LoadOptions& options, const std::string& name, const std::string& value, const std::string& others);

// The parts between separators, without spaces around them and without those that are empty.
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace nnhal::client

#endif  // NNHAL_CLIENT_LOAD_OPTIONS_H_

// Headers of HTTP/2 (RFC 7541), without the dynamic table: both sides are told that it has a size of 0.
#ifndef NNHAL_HPACK_H_
#define NNHAL_HPACK_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "status.h"

namespace nnhal {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Appends a header that refers to no table: its name and its value as they are.
void append_header(std::string& block, std::string_view name, std::string_view value);

// Decodes a whole block.
Result<Headers> decode_headers(std::string_view block);

}  // namespace nnhal

#endif  // NNHAL_HPACK_H_

#include "nnhal/client/load_options.h"

#include <algorithm>
#include <charconv>

namespace nnhal::client {
namespace {

Status refused(const std::string& name, const std::string& value, const std::string& expected) {
  return {Code::kInvalidArgument, "option " + name + " is '" + value + "', expected " + expected};
}

template <typename Number>
bool read_number(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0;
}

Status set_choice(const std::string& name, const std::string& value, const std::vector<std::string>& choices,
                  int& number) {
  const auto found = std::find(choices.begin(), choices.end(), value);
  if (found == choices.end()) {
    std::string all;
    for (const std::string& choice : choices) all += (all.empty() ? "" : ", ") + choice;
    return refused(name, value, "one of " + all);
  }
  number = static_cast<int>(found - choices.begin());
  return {};
}

// "name=device; op:Conv=device"
Status set_pins(const std::string& name, const std::string& value, std::vector<Pin>& pins) {
  pins.clear();
  for (const std::string& pin : split(value, ';')) {
    const std::size_t at = pin.rfind('=');
    if (at == std::string::npos || at == 0 || at + 1 == pin.size())
      return refused(name, value, "MATCH=DEVICE, parted by ';'");
    pins.push_back({pin.substr(0, at), pin.substr(at + 1)});
  }
  return {};
}

// "x=1,3,0,0; y=8"
Status set_dimensions(const std::string& name, const std::string& value, std::vector<InputDimensions>& inputs) {
  inputs.clear();
  for (const std::string& input : split(value, ';')) {
    const std::size_t at = input.rfind('=');
    if (at == std::string::npos || at == 0) return refused(name, value, "INPUT=N,N,..., parted by ';'");
    InputDimensions& made = inputs.emplace_back();
    made.name = input.substr(0, at);
    for (const std::string& extent : split(input.substr(at + 1), ','))
      if (!read_number(extent, made.dimensions.emplace_back())) return refused(name, extent, "a whole number");
  }
  return {};
}

Status set_token(const std::string& name, const std::string& value, std::string& token) {
  token.clear();
  for (std::size_t at = 0; at + 1 < value.size(); at += 2) {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(value.data() + at, value.data() + at + 2, byte, 16);
    if (error != std::errc() || end != value.data() + at + 2) break;
    token += static_cast<char>(byte);
  }
  return value.size() == 64 && token.size() == 32 ? Status() : refused(name, value, "64 hexadecimal digits");
}

}  // namespace

Status set(LoadOptions& options, const std::string& name, const std::string& value, const std::string& others) {
  if (name == "devices") return options.devices = split(value, ','), Status();
  if (name == "pins") return set_pins(name, value, options.pins);
  if (name == "partitioner")
    return set_choice(name, value, {"", "least_time", "nnapi", "cpu_only"}, options.partitioner);
  if (name == "fallback") return set_choice(name, value, {"", "allow", "warn", "deny"}, options.fallback);
  if (name == "dimensions") return set_dimensions(name, value, options.input_dimensions);
  if (name == "token") return set_token(name, value, options.cache_token);
  if (name == "relaxed") {
    int is_relaxed = 0;
    Status status = set_choice(name, value, {"0", "1"}, is_relaxed);
    options.is_relaxed = is_relaxed;
    return status;
  }
  if (name == "min_nodes_per_partition")
    return read_number(value, options.min_nodes_per_partition) ? Status() : refused(name, value, "a whole number");
  return {Code::kInvalidArgument,
          "unknown option '" + name + "', expected " + others +
              ", devices, pins, partitioner, fallback, relaxed, min_nodes_per_partition, dimensions or token"};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    const std::size_t first = text.find_first_not_of(' ', begin), last = text.find_last_not_of(' ', end - 1);
    if (end > begin && first < end) parts.push_back(text.substr(first, last - first + 1));
    begin = end + 1;
  }
  return parts;
}

}  // namespace nnhal::client

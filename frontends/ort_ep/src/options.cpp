#include "options.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "calls.h"
#include "nnhal/client/load_options.h"
#include "nnhal/client/session.h"

namespace nnhal::ort_ep {

Options read_options(const OrtSessionOptions* session) {
  std::string prefix = "ep." + std::string(kProviderName) + ".";
  std::transform(prefix.begin(), prefix.end(), prefix.begin(), [](unsigned char c) { return std::tolower(c); });
  auto* const entries = read<OrtKeyValuePairs*>(ort().GetSessionOptionsConfigEntries, session);
  const char *const *keys = nullptr, *const *values = nullptr;
  std::size_t count = 0;
  ort().GetKeyValuePairs(entries, &keys, &values, &count);
  std::map<std::string, std::string> all;
  for (std::size_t index = 0; index < count; ++index) all.emplace(keys[index], values[index]);
  ort().ReleaseKeyValuePairs(entries);
  Options options;
  options.directory = client::default_directory();
  for (const auto& [key, value] : all) {
    if (key.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string name = key.substr(prefix.size());
    if (name == "directory")
      options.directory = value;
    else
      check(client::set(options.load, name, value, "directory"));
  }
  const auto context = all.find("ep.context_enable");
  options.makes_contexts = context != all.end() && context->second == "1";
  return options;
}

}  // namespace nnhal::ort_ep

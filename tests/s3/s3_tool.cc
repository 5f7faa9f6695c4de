// The S3 store on the command line, for tests that compare it with another client.
//   s3_tool put|upload ADDRESS KEY <stdin     s3_tool get ADDRESS KEY >stdout
//   s3_tool list ADDRESS PREFIX               s3_tool folders ADDRESS PREFIX
//   s3_tool copy ADDRESS FROM TO              s3_tool remove ADDRESS KEY...
//   s3_tool keep|keep-parts ADDRESS KEY MTIME_NS MODE <stdin: put or upload, with what is to be kept
//   s3_tool kept ADDRESS KEY                  the two as they are, or "-"
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "penstock/s3.h"
#include "penstock/store.h"

namespace {

using namespace penstock;  // NOLINT: a small program

std::vector<std::byte> read_stdin() {
  std::vector<std::byte> all;
  std::vector<std::byte> piece(kMiB);
  for (ssize_t got; (got = read(STDIN_FILENO, piece.data(), piece.size())) > 0;) {
    all.insert(all.end(), piece.begin(), piece.begin() + got);
  }
  return all;
}

// NUL ends each name: a key may hold anything else.
void print_name(const std::string& name) {
  fwrite(name.c_str(), 1, name.size() + 1, stdout);
}

Result<void> upload(store::ObjectStore& store, const std::string& key,
                    const store::PutOptions& options = {}) {
  const std::vector<std::byte> bytes = read_stdin();
  auto upload = PENSTOCK_TRY(store.start_upload(key, options));
  PENSTOCK_TRY(upload->write(bytes));
  PENSTOCK_TRY(upload->finish());
  return {};
}

Result<void> list_folders(store::ObjectStore& store, const std::string& prefix) {
  store::ListOptions options;
  options.prefix = prefix;
  options.by_folder = true;
  while (true) {
    const store::ListPage page = PENSTOCK_TRY(store.list(options));
    for (const std::string& folder : page.folders) print_name(folder);
    if (!page.next) return {};
    options.start_after = *page.next;
  }
}

Result<void> run(const std::vector<std::string>& words) {
  const std::string& verb = words[1];
  const auto opened = PENSTOCK_TRY(store::open_store(words[2], {}));
  store::ObjectStore& store = *opened;
  const std::string& key = words[3];
  if (verb == "put") {
    PENSTOCK_TRY(store.put(key, read_stdin()));
  } else if (verb == "upload") {
    return upload(store, key);
  } else if (verb == "keep" || verb == "keep-parts") {
    store::PutOptions options;
    options.mtime_ns = std::stoll(words.at(4));
    options.mode = static_cast<uint32_t>(std::stoul(words.at(5), nullptr, 8));
    if (verb == "keep-parts") return upload(store, key, options);
    PENSTOCK_TRY(store.put(key, read_stdin(), options));
  } else if (verb == "kept") {
    const store::ObjectInfo info = PENSTOCK_TRY(store.head(key));
    fmt::print("{} {}\n", info.kept_mtime_ns ? fmt::format("{}", *info.kept_mtime_ns) : "-",
               info.kept_mode ? fmt::format("{:o}", *info.kept_mode) : "-");
  } else if (verb == "get") {
    const auto bytes = PENSTOCK_TRY(store::read_object(store, key, kGiB));
    fwrite(bytes.data(), 1, bytes.size(), stdout);
  } else if (verb == "list") {
    return store::for_each_object(store, key, [](const store::ObjectInfo& object) {
      print_name(object.key);
      return true;
    });
  } else if (verb == "folders") {
    return list_folders(store, key);
  } else if (verb == "copy") {
    PENSTOCK_TRY(store.copy(key, words.at(4)));
  } else if (verb == "remove") {
    const auto failures =
        PENSTOCK_TRY(store.remove(std::vector<std::string>(words.begin() + 3, words.end())));
    if (!failures.empty()) return failures.front().error;
  } else {
    return make_error(ErrorCode::kInvalid, "unknown verb " + verb);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: s3_tool VERB ADDRESS KEY\n");
    return 2;
  }
  const auto result = run(std::vector<std::string>(argv, argv + argc));
  if (result.ok()) return 0;
  fmt::print(stderr, "s3_tool: {}\n", result.error().to_string());
  return 1;
}

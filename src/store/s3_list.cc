#include <fmt/core.h>

#include <algorithm>

#include "store/s3_store.h"
#include "store/s3_xml.h"

namespace penstock::store {

namespace {

// The last character there is: after a folder's name it sorts behind all that is in the folder.
constexpr std::string_view kLastCharacter = "\xF4\x8F\xBF\xBF";

// A page that is being put together: mostly of one answer, of more when all that came is not ours
// to show.
struct Listing {
  S3Client& client;
  std::string store_prefix;
  ListOptions options;
  Done<ListPage> done;
  std::string after;         // A key or folder in the bucket; empty: from the beginning.
  std::string continuation;  // Used when an answer had nothing to go on from.
  S3Listing answer;
  ListPage page;

  std::string prefix() const { return store_prefix + options.prefix; }
};

// Where the server shall begin so that everything up to `after` is behind us. A folder is skipped
// whole: its own name sorts before what is in it, and would bring it back.
std::string server_start(const Listing& listing) {
  const std::string prefix = listing.prefix();
  if (!listing.options.by_folder || !listing.after.starts_with(prefix)) return listing.after;
  const size_t slash = listing.after.find('/', prefix.size());
  if (slash == std::string::npos) return listing.after;
  return listing.after.substr(0, slash + 1) + std::string(kLastCharacter);
}

bool is_asked_for(const Listing& listing, std::string_view full) {
  return full > listing.store_prefix + listing.options.start_after &&
         full.starts_with(listing.prefix());
}

// Whether the page shows it. Keys that others put into the bucket and that no store can name are
// shown apart.
bool take_name(Listing& listing, std::string_view full, std::string_view without_slash) {
  if (!is_asked_for(listing, full)) return false;
  const size_t cut = listing.store_prefix.size();
  if (check_key(without_slash.substr(std::min(cut, without_slash.size()))).ok()) return true;
  listing.page.odd.emplace_back(full.substr(cut));
  return false;
}

Result<void> check_order(const S3Listing& answer) {
  const auto unsorted = [](const auto& entries, auto name) {
    return std::adjacent_find(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
             return !(name(a) < name(b));
           }) != entries.end();
  };
  const bool is_wrong =
      unsorted(answer.objects, [](const ObjectInfo& o) -> const std::string& { return o.key; }) ||
      unsorted(answer.folders, [](const std::string& f) -> const std::string& { return f; });
  if (!is_wrong) return {};
  return make_error(ErrorCode::kUnsupported, "the server does not list keys in their order");
}

void take_entries(Listing& listing) {
  const size_t cut = listing.store_prefix.size();
  for (ObjectInfo& object : listing.answer.objects) {
    if (!take_name(listing, object.key, object.key)) continue;
    object.key.erase(0, cut);
    listing.page.objects.push_back(std::move(object));
  }
  for (const std::string& folder : listing.answer.folders) {
    const std::string_view name = std::string_view(folder).substr(0, folder.size() - 1);
    if (folder.ends_with('/') && take_name(listing, folder, name)) {
      listing.page.folders.push_back(folder.substr(cut));
    }
  }
}

void send_listing(std::shared_ptr<Listing> listing);

void on_listed(const std::shared_ptr<Listing>& listing, const Result<HttpResponse>& response) {
  if (!response.ok()) return listing->done(response.error());
  S3Listing& answer = listing->answer;
  std::string last = listing->after;
  if (!answer.objects.empty()) last = std::max(last, answer.objects.back().key);
  if (!answer.folders.empty()) last = std::max(last, answer.folders.back());
  take_entries(*listing);
  const ListPage& page = listing->page;
  const bool is_empty = page.objects.empty() && page.folders.empty() && page.odd.empty();
  const bool has_moved = last != listing->after;
  listing->after = std::move(last);
  listing->continuation = has_moved ? "" : answer.continuation;
  if (answer.truncated && is_empty && (has_moved || !answer.continuation.empty())) {
    return send_listing(listing);
  }
  if (answer.truncated && !is_empty) {
    listing->page.next = listing->after.substr(listing->store_prefix.size());
  }
  listing->done(std::move(listing->page));
}

void send_listing(std::shared_ptr<Listing> listing) {
  S3Request request;
  request.op = S3Op::kList;
  request.query = {{"list-type", "2"},
                   {"encoding-type", "url"},
                   {"max-keys", std::to_string(listing->options.limit)},
                   {"prefix", listing->prefix()}};
  if (listing->options.by_folder) request.query.emplace_back("delimiter", "/");
  if (!listing->continuation.empty()) {
    request.query.emplace_back("continuation-token", listing->continuation);
  } else if (!listing->after.empty()) {
    request.query.emplace_back("start-after", server_start(*listing));
  }
  request.call = listing->options;
  request.check = [listing](const HttpResponse& response) -> Result<void> {
    listing->answer = PENSTOCK_TRY(parse_listing(response.text));
    return check_order(listing->answer);
  };
  S3Client& client = listing->client;
  client.send(std::move(request),
              [listing = std::move(listing)](const Result<HttpResponse>& response,
                                             const S3History&) { on_listed(listing, response); });
}

}  // namespace

void list_objects(S3Client& client, const std::string& prefix, ListOptions options,
                  Done<ListPage> done) {
  const std::string after = options.start_after.empty() ? "" : prefix + options.start_after;
  send_listing(std::make_shared<Listing>(
      Listing{client, prefix, std::move(options), std::move(done), after, {}, {}, {}}));
}

}  // namespace penstock::store

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

// Whether a store can name it. Others may have put any key into the bucket.
bool is_nameable(const Listing& listing, std::string_view full) {
  return check_key(full.substr(std::min(listing.store_prefix.size(), full.size()))).ok();
}

// Consoles mark a folder so: with '/' at the end there is no name left for it in the folder.
bool is_mark_of_store(const Listing& listing, std::string_view full) {
  return full == listing.store_prefix && listing.options.prefix.empty() &&
         listing.options.start_after.empty();
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
  ListPage& page = listing.page;
  for (ObjectInfo& object : listing.answer.objects) {
    if (!is_asked_for(listing, object.key) && !is_mark_of_store(listing, object.key)) continue;
    const bool nameable = is_nameable(listing, object.key);
    object.key.erase(0, cut);
    (nameable ? page.objects : page.odd).push_back(std::move(object));
  }
  for (const std::string& folder : listing.answer.folders) {
    if (!folder.ends_with('/') || !is_asked_for(listing, folder)) continue;
    if (is_nameable(listing, std::string_view(folder).substr(0, folder.size() - 1))) {
      page.folders.push_back(folder.substr(cut));
    } else {
      page.odd.emplace_back().key = folder.substr(cut);
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
  // With no more than the mark of the store there is no name yet that a next page could begin after.
  const bool is_at_mark = listing->after == listing->store_prefix;
  if (answer.truncated && (is_empty || is_at_mark) && (has_moved || !answer.continuation.empty())) {
    return send_listing(listing);
  }
  if (answer.truncated && !is_empty && !is_at_mark) {
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

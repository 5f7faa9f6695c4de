// The files of a volume as keys, in the order in which stores list them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "penstock/meta.h"
#include "penstock/store.h"

namespace penstock::volume {

// Files under such names are puts that are not finished, and not there.
inline constexpr std::string_view kTemporaryPrefix = ".penstock-tmp-";

// One page. Directories without files below them are not in it.
Result<store::ListPage> list_page(meta::View& names, const store::ListOptions& options);

store::ObjectInfo info_of(std::string key, const meta::Inode& inode);

}  // namespace penstock::volume

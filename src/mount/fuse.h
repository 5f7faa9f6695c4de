// The one place that says which interface of libfuse is used.
#pragma once

#define FUSE_USE_VERSION 312

#include <fuse3/fuse_lowlevel.h>

// Since 2.29 log2 does without the hook matherr(), which nothing of ours has.

#include "glibc/symbol_versions.h"

#ifdef __GLIBC__

FRUGAL_OLD_FUNCTION("2.2.5", double, log2, (double value), (value))

#endif

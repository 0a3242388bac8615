/* All kernels for the current REAL and instruction set; afterwards the names are free again. */
#include "core_normal.h"
#include "core_products.h"
#include "core_units.h"
#undef REAL
#undef WORD
#undef SINGLE
#undef NAME

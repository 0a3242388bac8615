/* All kernels for the current REAL and instruction set; afterwards the names are free again. */
#include "core_normal.h"
#include "core_products.h"
#include "core_units.h"
#include "core_pulse.h"
#include "core_eigen.h"
#include "core_axes.h"
#include "core_squares.h"
#include "core_growth.h"
#include "core_table.h"
#undef REAL
#undef WORD
#undef SINGLE
#undef NAME

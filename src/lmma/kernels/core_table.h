/* The kernels just made, by name; the names that made them are free again. */
static const Kernels NAME(kernels) = {
    NAME(normals_unit), NAME(project_unit), NAME(mix_unit), NAME(recombine_unit), NAME(squares_unit),
    NAME(rescale_unit), NAME(update_unit), NAME(pulse_project), NAME(pulse_excess), NAME(pulse_rows),
    NAME(axes_gram), NAME(axes_combine), NAME(stretch_project), NAME(stretch_mix), NAME(turn_columns),
    NAME(square_columns), NAME(fold), NAME(pulse_fold), NAME(pulse_coefficients), NAME(axes_eigen), NAME(stretch_fold),
    NAME(grow), NAME(pairs),
};

#undef PAIR_LANES
#undef LANES
#undef AS_BITS
#undef AS_REAL
#undef Vec
#undef Bits
#undef FMA
#undef SQRT
#undef SPREAD
#undef AS_NUMBER
#undef DOT_ROWS
#undef DOT_COLS
#undef DOT_CASES
#undef MIX_COLS
#undef BLOCK

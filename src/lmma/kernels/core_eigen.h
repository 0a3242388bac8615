/* Eigenvalues and eigenvectors of small symmetric matrices: Householder's reduction to a tridiagonal one, then
   QL steps with implicit shifts. All inner loops run along rows, whose length is a multiple of QUAD. */

#define QL_STEPS 60 /* a step or two for each eigenvalue are usual; a matrix with NaNs takes all of them */

/* out += weights times rows, from row `first` to `last`, in columns from `start` (a multiple of QUAD) to `stop`. */
INLINE void NAME(add_rows)(const double *restrict weights, const double *restrict rows, ptrdiff_t first, ptrdiff_t last,
                           ptrdiff_t start, ptrdiff_t stop, double *restrict out) {
    ptrdiff_t i = first;
    for (; i + 4 <= last; i += 4) {
        const double *row = rows + i * stop, a = weights[i], b = weights[i + 1], c = weights[i + 2], d = weights[i + 3];
        for (ptrdiff_t j = start; j < stop; j += QUAD)
            for (int k = 0; k < QUAD; k++)
                out[j + k] += (a * row[j + k] + b * row[stop + j + k]) + (c * row[2 * stop + j + k] + d * row[3 * stop + j + k]);
    }
    for (; i < last; i++)
        for (ptrdiff_t j = start; j < stop; j += QUAD)
            for (int k = 0; k < QUAD; k++) out[j + k] += weights[i] * rows[i * stop + j + k];
}

/* Reduce `a` (m rows of `wide` numbers, overwritten) to diagonal d and off-diagonal e[1 ... m - 1]; row i of q becomes
   the i-th row of the transposed basis. `work` holds 4 wide numbers. */
static void NAME(tridiagonal)(double *a, ptrdiff_t m, ptrdiff_t wide, double *d, double *e, double *q, double *work) {
    double *restrict p = work, *restrict scale = work + wide, *restrict u = work + 2 * wide, *restrict w = work + 3 * wide;
    for (ptrdiff_t k = 0; k < m - 2; k++) { /* v in row k of a, from column k + 1 on; zeros before it */
        double *restrict v = a + k * wide;
        const ptrdiff_t start = (k + 1) / QUAD * QUAD;
        double tail = 0.0;
        d[k] = v[k];
        e[k + 1] = v[k + 1];
        for (ptrdiff_t j = start; j <= k; j++) v[j] = 0.0;
        for (ptrdiff_t j = k + 2; j < m; j++) tail += v[j] * v[j];
        scale[k] = 0.0;
        if (tail == 0.0) continue; /* nothing to reflect */
        const double length = sqrt(v[k + 1] * v[k + 1] + tail);
        e[k + 1] = v[k + 1] > 0 ? -length : length;
        v[k + 1] -= e[k + 1];
        const double factor = scale[k] = 2.0 / (v[k + 1] * v[k + 1] + tail);
        for (ptrdiff_t j = start; j < wide; j++) p[j] = 0.0;
        NAME(add_rows)(v, a, k + 1, m, start, wide, p);
        double product = 0.0;
        for (ptrdiff_t j = k + 1; j < m; j++) product += p[j] * v[j];
        product *= factor / 2;
        for (ptrdiff_t j = start; j < wide; j++) {
            w[j] = factor * (p[j] - product * v[j]);
            u[j] = v[j];
        }
        for (ptrdiff_t i = k + 1; i < m; i++) {
            const double left = u[i], right = w[i];
            double *restrict row = a + i * wide;
            for (ptrdiff_t j = start; j < wide; j += QUAD)
                for (int c = 0; c < QUAD; c++) row[j + c] -= left * w[j + c] + right * u[j + c];
        }
    }
    for (ptrdiff_t k = larger(0, m - 2); k < m; k++) d[k] = a[k * wide + k];
    if (m > 1) e[m - 1] = a[(m - 1) * wide + m - 2];
    memset(q, 0, (size_t)(m * wide) * sizeof(double));
    for (ptrdiff_t k = 0; k < m; k++) q[k * wide + k] = 1.0;
    for (ptrdiff_t k = m - 3; k >= 0; k--) { /* the basis is H_0 H_1 ..., multiplied from the last on */
        if (scale[k] == 0.0) continue;
        const double *restrict v = a + k * wide;
        const ptrdiff_t start = (k + 1) / QUAD * QUAD;
        for (ptrdiff_t j = start; j < wide; j++) p[j] = 0.0;
        NAME(add_rows)(v, q, k + 1, m, start, wide, p);
        for (ptrdiff_t i = k + 1; i < m; i++) {
            const double weight = scale[k] * v[i];
            double *restrict row = q + i * wide;
            for (ptrdiff_t j = start; j < wide; j += QUAD)
                for (int c = 0; c < QUAD; c++) row[j + c] -= weight * p[j + c];
        }
    }
    for (ptrdiff_t i = 1; i < m; i++)
        for (ptrdiff_t j = 0; j < i; j++) {
            const double swapped = q[i * wide + j];
            q[i * wide + j] = q[j * wide + i];
            q[j * wide + i] = swapped;
        }
}

INLINE void NAME(turn_pair)(const Rotation *turn, double *q, ptrdiff_t wide) {
    double *restrict low = q + turn->row * wide, *restrict high = low + wide;
    const double c = turn->c, s = turn->s;
    for (ptrdiff_t k = 0; k < wide; k += QUAD)
        for (int j = 0; j < QUAD; j++) {
            const double h = high[k + j], l = low[k + j];
            high[k + j] = s * l + c * h;
            low[k + j] = c * l - s * h;
        }
}

/* Diagonalise d, e; rows of q become eigenvectors. Each rotation waits for the one before, so those of q lag a step
   behind: the processor has something to do meanwhile. `turns` holds 2 m rotations. */
static void NAME(ql)(double *restrict d, double *restrict e, double *restrict q, ptrdiff_t m, ptrdiff_t wide,
                     Rotation *turns) {
    Rotation *now = turns, *before = turns + m;
    ptrdiff_t waiting = 0;
    for (ptrdiff_t i = 1; i < m; i++) e[i - 1] = e[i];
    e[m - 1] = 0.0;
    for (ptrdiff_t l = 0; l < m; l++)
        for (int step = 0; step < QL_STEPS; step++) {
            ptrdiff_t last = l, made = 0, done = 0;
            while (last < m - 1 && !(fabs(e[last]) <= 2.3e-16 * (fabs(d[last]) + fabs(d[last + 1])))) last++;
            if (last == l) break;
            double g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            const double root = sqrt(g * g + 1.0);
            g = d[last] - d[l] + e[l] / (g + (g < 0 ? -root : root));
            double s = 1.0, c = 1.0, p = 0.0;
            ptrdiff_t i = last - 1;
            for (; i >= l; i--) {
                const double f = s * e[i], b = c * e[i];
                const double square = f * f + g * g;
                if (square < 1e-300) { /* its inverse would not be a number */
                    e[i + 1] = 0.0;
                    d[i + 1] -= p;
                    e[last] = 0.0;
                    break;
                }
                /* g waits for the quotient alone, not for the root */
                const double quotient = 1.0 / square, length = sqrt(square), inverse = length * quotient;
                const double old = d[i + 1] - p, share = ((d[i] - old) * f + 2.0 * g * b) * quotient;
                e[i + 1] = length;
                s = f * inverse;
                c = g * inverse;
                p = f * share;
                d[i + 1] = old + p;
                g = g * share - b;
                now[made++] = (Rotation){c, s, i};
                if (done < waiting) NAME(turn_pair)(before + done++, q, wide);
            }
            if (i < l) {
                d[l] -= p;
                e[l] = g;
                e[last] = 0.0;
            }
            while (done < waiting) NAME(turn_pair)(before + done++, q, wide);
            Rotation *const swapped = before;
            before = now;
            now = swapped;
            waiting = made;
        }
    for (ptrdiff_t k = 0; k < waiting; k++) NAME(turn_pair)(before + k, q, wide);
}

/* The eigenvalues of `a` (m x m in rows of quads(m) numbers with zeros at their ends, overwritten), largest first, in
   `values`, and the places of their eigenvectors among the rows of `q`, in `place`. `work` holds 6 quads(m) numbers,
   `turns` 2 m rotations. */
static void NAME(eigen)(double *a, ptrdiff_t m, double *values, double *q, ptrdiff_t *place, double *work,
                        Rotation *turns) {
    const ptrdiff_t wide = quads(m);
    double *d = work, *e = work + wide, largest = 0.0;
    if (m < 1) return;
    for (ptrdiff_t i = 0; i < m * wide; i++) largest = fabs(a[i]) > largest ? fabs(a[i]) : largest;
    const double unit = largest > 0.0 ? largest : 1.0; /* squares of it are taken */
    for (ptrdiff_t i = 0; i < m * wide; i++) a[i] /= unit;
    NAME(tridiagonal)(a, m, wide, d, e, q, work + 2 * wide);
    NAME(ql)(d, e, q, m, wide, turns);
    for (ptrdiff_t i = 0; i < m; i++) { /* insert in order */
        ptrdiff_t j = i;
        for (; j > 0 && d[i] > d[place[j - 1]]; j--) place[j] = place[j - 1];
        place[j] = i;
    }
    for (ptrdiff_t i = 0; i < m; i++) values[i] = unit * d[place[i]];
}

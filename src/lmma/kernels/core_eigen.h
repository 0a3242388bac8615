/* Eigenvalues and eigenvectors of small symmetric matrices: Householder's reduction to a tridiagonal one, then
   QL steps with implicit shifts. All inner loops run along rows. */

#define QL_STEPS 60 /* a step or two for each eigenvalue are usual; a matrix with NaNs takes all of them */

/* Reduce `a` (m x m, overwritten) to diagonal d and off-diagonal e[1 ... m - 1]; row i of q becomes the i-th
   row of the transposed basis. `work` holds 2 m numbers. */
static void NAME(tridiagonal)(double *a, ptrdiff_t m, double *d, double *e, double *q, double *work) {
    double *v, *p = work, *scale = work + m;
    for (ptrdiff_t k = 0; k < m - 2; k++) { /* v in row k of a, from column k + 1 on */
        v = a + k * m;
        double tail = 0.0;
        for (ptrdiff_t j = k + 2; j < m; j++) tail += v[j] * v[j];
        d[k] = v[k];
        scale[k] = 0.0;
        e[k + 1] = v[k + 1];
        if (tail == 0.0) continue; /* nothing to reflect */
        const double length = sqrt(v[k + 1] * v[k + 1] + tail);
        e[k + 1] = v[k + 1] > 0 ? -length : length;
        v[k + 1] -= e[k + 1];
        const double factor = scale[k] = 2.0 / (v[k + 1] * v[k + 1] + tail);
        for (ptrdiff_t j = k + 1; j < m; j++) p[j] = 0.0;
        for (ptrdiff_t i = k + 1; i < m; i++) {
            const double weight = factor * v[i], *row = a + i * m;
            for (ptrdiff_t j = k + 1; j < m; j++) p[j] += weight * row[j];
        }
        double product = 0.0;
        for (ptrdiff_t j = k + 1; j < m; j++) product += p[j] * v[j];
        for (ptrdiff_t j = k + 1; j < m; j++) p[j] -= factor * product / 2 * v[j];
        for (ptrdiff_t i = k + 1; i < m; i++) {
            const double left = v[i], right = p[i];
            double *row = a + i * m;
            for (ptrdiff_t j = k + 1; j < m; j++) row[j] -= left * p[j] + right * v[j];
        }
    }
    for (ptrdiff_t k = larger(0, m - 2); k < m; k++) d[k] = a[k * m + k];
    if (m > 1) e[m - 1] = a[(m - 1) * m + m - 2];
    memset(q, 0, (size_t)(m * m) * sizeof(double));
    for (ptrdiff_t k = 0; k < m; k++) q[k * m + k] = 1.0;
    for (ptrdiff_t k = m - 3; k >= 0; k--) { /* the basis is H_0 H_1 ..., multiplied from the last on */
        if (scale[k] == 0.0) continue;
        v = a + k * m;
        for (ptrdiff_t j = k + 1; j < m; j++) p[j] = 0.0;
        for (ptrdiff_t i = k + 1; i < m; i++) {
            const double weight = scale[k] * v[i], *row = q + i * m;
            for (ptrdiff_t j = k + 1; j < m; j++) p[j] += weight * row[j];
        }
        for (ptrdiff_t i = k + 1; i < m; i++) {
            const double weight = v[i];
            double *row = q + i * m;
            for (ptrdiff_t j = k + 1; j < m; j++) row[j] -= weight * p[j];
        }
    }
    for (ptrdiff_t i = 1; i < m; i++)
        for (ptrdiff_t j = 0; j < i; j++) {
            const double swapped = q[i * m + j];
            q[i * m + j] = q[j * m + i];
            q[j * m + i] = swapped;
        }
}

/* Diagonalise d, e; rows of q become eigenvectors. */
static void NAME(ql)(double *d, double *e, double *q, ptrdiff_t m) {
    for (ptrdiff_t i = 1; i < m; i++) e[i - 1] = e[i];
    e[m - 1] = 0.0;
    for (ptrdiff_t l = 0; l < m; l++)
        for (int step = 0; step < QL_STEPS; step++) {
            ptrdiff_t last = l;
            while (last < m - 1 && !(fabs(e[last]) <= 2.3e-16 * (fabs(d[last]) + fabs(d[last + 1])))) last++;
            if (last == l) break;
            double g = (d[l + 1] - d[l]) / (2.0 * e[l]), r = sqrt(g * g + 1.0);
            g = d[last] - d[l] + e[l] / (g + (g < 0 ? -r : r));
            double s = 1.0, c = 1.0, p = 0.0;
            ptrdiff_t i = last - 1;
            for (; i >= l; i--) {
                const double f = s * e[i], b = c * e[i];
                const double square = f * f + g * g;
                if (square < 1e-300) { /* its inverse would not be a number */
                    e[i + 1] = r = 0.0;
                    d[i + 1] -= p;
                    e[last] = 0.0;
                    break;
                }
                e[i + 1] = r = sqrt(square);
                const double inverse = r * (1.0 / square); /* root and quotient do not wait for one another */
                s = f * inverse;
                c = g * inverse;
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                double *low = q + i * m, *high = low + m;
                for (ptrdiff_t k = 0; k < m; k++) {
                    const double h = high[k];
                    high[k] = s * low[k] + c * h;
                    low[k] = c * low[k] - s * h;
                }
            }
            if (r == 0.0 && i >= l) continue;
            d[l] -= p;
            e[l] = g;
            e[last] = 0.0;
        }
}

/* The eigenvalues of `a` (m x m, overwritten), largest first, in `values`, and the places of their eigenvectors
   among the rows of `q`, in `place`. `work` holds 4 m numbers. */
static void NAME(eigen)(double *a, ptrdiff_t m, double *values, double *q, ptrdiff_t *place, double *work) {
    double *d = work, *e = work + m, largest = 0.0;
    if (m < 1) return;
    for (ptrdiff_t i = 0; i < m * m; i++) largest = fabs(a[i]) > largest ? fabs(a[i]) : largest;
    const double unit = largest > 0.0 ? largest : 1.0; /* squares of it are taken */
    for (ptrdiff_t i = 0; i < m * m; i++) a[i] /= unit;
    NAME(tridiagonal)(a, m, d, e, q, work + 2 * m);
    NAME(ql)(d, e, q, m);
    for (ptrdiff_t i = 0; i < m; i++) { /* insert in order */
        ptrdiff_t j = i;
        for (; j > 0 && d[i] > d[place[j - 1]]; j--) place[j] = place[j - 1];
        place[j] = i;
    }
    for (ptrdiff_t i = 0; i < m; i++) values[i] = unit * d[place[i]];
}

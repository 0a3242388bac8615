/* A team of threads that shares numbered units of work, in one or two phases.

   The result of a unit depends only on its number, and each unit writes to its own memory, so results do not depend
   on the number of threads or on which thread takes which unit. Threads live for one call, so a fork is safe. */

#if HAVE_THREADS
#include <sched.h>
#endif

#include "core_memory.h"

#define MAX_THREADS 64
#define MAX_PHASES 2
#define ALIGNMENT 64
#define PATIENCE 4096 /* spins before sched_yield() */

typedef void (*Work)(const void *job, ptrdiff_t unit, char *scratch);

typedef struct {
    Work work[MAX_PHASES];
    void (*between)(void *job); /* called once, by one thread, before the second phase */
    int phases;
    void *job;
    ptrdiff_t units;
    size_t scratch;             /* bytes per thread, a multiple of ALIGNMENT */
    char *memory;               /* for all threads */
    int members;                /* threads that have taken their part of `memory` */
    int done;                   /* helpers that have finished the first phase */
    int open;                   /* number of phases that may start */
    ptrdiff_t next[MAX_PHASES]; /* first unit not taken yet */
} Team;

#if HAVE_THREADS
#define TAKE(counter) __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL)
#define AWAIT(counter, count)                                                          \
    for (int spins = 0; __atomic_load_n(counter, __ATOMIC_ACQUIRE) < (count); spins++) \
        if (spins >= PATIENCE) sched_yield()
#else
#define TAKE(counter) ((*(counter))++)
#endif

static void take_units(Team *team, int phase, char *scratch) {
    for (;;) {
        const ptrdiff_t unit = TAKE(&team->next[phase]);
        if (unit >= team->units) break;
        team->work[phase](team->job, unit, scratch);
    }
}

#if HAVE_THREADS
static void *helper(void *shared) {
    Team *team = shared;
    char *scratch = team->memory + (size_t)TAKE(&team->members) * team->scratch;
    take_units(team, 0, scratch);
    TAKE(&team->done);
    if (team->phases > 1) {
        AWAIT(&team->open, 2);
        take_units(team, 1, scratch);
    }
    return NULL;
}
#endif

/* Run all units of all phases with up to `threads` threads; return 0, or -1 without running any if there is no
   memory. */
static int run_team(int threads, Team *team) {
    threads = (int)(team->units < threads ? team->units : threads);
    if (threads < 1) threads = 1;
    team->scratch = (team->scratch + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *memory = borrow((size_t)threads * team->scratch + ALIGNMENT);
    if (!memory) return -1;
    team->memory = memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT);
    team->members = 1; /* the caller */
    team->done = team->open = 0;
    team->next[0] = team->next[1] = 0;
#if HAVE_THREADS
    int started = 0;
    pthread_t helpers[MAX_THREADS];
    while (started + 1 < threads && pthread_create(&helpers[started], NULL, helper, team) == 0)
        started++; /* continue with fewer threads if one cannot be started */
#endif
    take_units(team, 0, team->memory);
    if (team->phases > 1) {
#if HAVE_THREADS
        AWAIT(&team->done, started);
#endif
        team->between(team->job);
#if HAVE_THREADS
        __atomic_store_n(&team->open, 2, __ATOMIC_RELEASE);
#endif
        take_units(team, 1, team->memory);
    }
#if HAVE_THREADS
    for (int i = 0; i < started; i++) pthread_join(helpers[i], NULL);
#endif
    give_back(memory);
    return 0;
}

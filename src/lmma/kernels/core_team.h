/* A team of threads that shares out numbered units of work.

   What a unit computes depends on its number alone and each unit writes to its own place, so results do
   not depend on how many threads there are or on which of them takes which unit. Threads live for one
   call: nothing is left behind that a fork could break. */

#if defined(_WIN32)
#define HAVE_THREADS 0
#else
#define HAVE_THREADS 1
#include <pthread.h>
#endif

#define MAX_THREADS 64
#define ALIGNMENT 64

typedef void (*Work)(const void *job, ptrdiff_t unit, char *scratch);

typedef struct {
    Work work;
    const void *job;
    ptrdiff_t units;
    size_t scratch; /* bytes a thread needs */
    ptrdiff_t next; /* first unit not taken yet */
    int failed;     /* no memory */
} Team;

static void *member(void *shared) {
    Team *team = shared;
    char *memory = malloc(team->scratch + ALIGNMENT);
    if (!memory) {
        team->failed = 1;
        return NULL;
    }
    char *scratch = memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT);
    for (;;) {
#if HAVE_THREADS
        const ptrdiff_t unit = __atomic_fetch_add(&team->next, 1, __ATOMIC_RELAXED);
#else
        const ptrdiff_t unit = team->next++;
#endif
        if (unit >= team->units) break;
        team->work(team->job, unit, scratch);
    }
    free(memory);
    return NULL;
}

/* Do all units with up to `threads` threads; return 0, or -1 where memory ran out. */
static int run_team(int threads, Work work, const void *job, ptrdiff_t units, size_t scratch) {
    Team team = {work, job, units, scratch, 0, 0};
#if HAVE_THREADS
    pthread_t helpers[MAX_THREADS];
    int started = 0;
    while (started + 1 < threads && started + 1 < units && started < MAX_THREADS &&
           pthread_create(&helpers[started], NULL, member, &team) == 0)
        started++; /* fewer than asked for will do */
    member(&team);
    for (int i = 0; i < started; i++) pthread_join(helpers[i], NULL);
#else
    (void)threads;
    member(&team);
#endif
    return team.failed && team.next < team.units ? -1 : 0;
}

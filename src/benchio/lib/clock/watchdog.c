/* The thread behind watchdog.f90. A signal alone reaches no process
 * whose call the kernel does not let go, as when a metadata server hangs. The thread leaves to
 * another whatever may hang itself. */
#define _GNU_SOURCE

#include "benchio.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { stack_bytes = 256 * 1024, report_stack_bytes = 64 * 1024 * 1024 };

/* Nanoseconds between two looks at the time. A look costs some microseconds. */
enum { tick = 250000000 };

/* Seconds from the time limit, or from SIGTERM, until a phase is cut off. */
enum { grace = 5 };

/* The name of what has ended a run whose time was over. */
static const char limit_name[] = "time limit";

/* Seconds without a look after which this process was stopped, be it by SIGSTOP or a freezer. */
static const double stopped_after = 1;

/* Why a run has to end: its time is over; a signal; no end of a phase; what a library has done in
 * this process, or in that of another rank. */
enum end { not_yet, by_limit, by_signal, by_hang, inside, elsewhere };

static struct {
    pthread_mutex_t lock;
    int has_clock, is_armed, is_over;
    struct timespec limit, looked_at;
    double stopped; /* seconds in which this process did not run */
    int rank;
    char host[256];
    /* What is under way, where, in which way, for so many seconds at most. */
    char phase[64], place[PATH_MAX], backend[32];
    int seconds;
    char failure[PATH_MAX + 256]; /* the line of what has failed already; empty: nothing */
    char written[PATH_MAX]; /* the file that this rank writes; empty: none */
    char companions[64]; /* goes on the names of `files` in more that go with them; or empty */
    char *files, *directories; /* each ended by NUL, the last by two */
    struct notice met; /* the same failure */
    int probes, may_be_cut, tells;
    unsigned delay;
    atomic_int is_done; /* the removal of the directories */
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER, .phase = "the beginning"};

/* What ends the run that is under way, be its ranks in a phase or not. */
static struct {
    int is_running, has_limit, is_told;
    struct timespec limit, told_at;
    reporter *report; /* writes the result of all that is known until now; NULL: there is none */
    atomic_int has_reported;
    int has_ended, status; /* the result is written, and this process only has to end with this */
    enum end why;
    struct notice notice; /* the same in words */
} bound;

static int removes_all; /* of the run's directory, on rank 0 */

static int is_before(struct timespec a, struct timespec b)
{
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

static struct timespec now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time;
}

static double seconds_between(struct timespec a, struct timespec b)
{
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

/* Notes, under the lock, that somebody looks at the time. Nobody could for so long only if this
 * process was stopped, which is no hang of a phase. */
static void look_at_time(void)
{
    const struct timespec time = now();
    const double gap = seconds_between(watched.looked_at, time);

    if (watched.has_clock && gap > stopped_after) {
        watched.stopped += gap;
        watched.limit.tv_sec += (time_t)gap + 1;
    }
    watched.looked_at = time;
}

/* Seconds, until now, in which this process was stopped. */
double benchio_stopped_seconds(void)
{
    double seconds;

    pthread_mutex_lock(&watched.lock);
    look_at_time();
    seconds = watched.stopped;
    pthread_mutex_unlock(&watched.lock);
    return seconds;
}

/* From now on a run is under way, and report, on the rank that has one, is called when it is cut
 * off; NULL: nothing is. */
void benchio_report_by(reporter *report)
{
    pthread_mutex_lock(&watched.lock);
    bound.has_ended = 0;
    bound.report = report;
    pthread_mutex_unlock(&watched.lock);
}

/* Begins the rounds of a run, which end after so many seconds, never with 0. benchio_unbound ends
 * them. */
void benchio_bound(int32_t seconds)
{
    pthread_mutex_lock(&watched.lock);
    bound.is_running = 1;
    bound.has_limit = seconds > 0;
    bound.limit = now();
    bound.limit.tv_sec += seconds;
    pthread_mutex_unlock(&watched.lock);
}

void benchio_unbound(void)
{
    pthread_mutex_lock(&watched.lock);
    bound.is_running = 0;
    pthread_mutex_unlock(&watched.lock);
}

/* The result is written: whatever comes now, this process ends with this status. */
void benchio_has_ended(int32_t status)
{
    pthread_mutex_lock(&watched.lock);
    bound.report = NULL;
    bound.has_ended = 1;
    bound.status = status;
    pthread_mutex_unlock(&watched.lock);
}

/* Why the run has to end: at once, or, as the thread asks, since longer than the grace. */
static enum end end_due(int has_grace)
{
    const struct timespec time = now();
    struct timespec limit = bound.limit, told = bound.told_at;

    if (!bound.is_running)
        return not_yet;
    limit.tv_sec += has_grace ? grace : 0;
    told.tv_sec += grace;
    if (has_grace ? bound.is_told && !is_before(time, told) : benchio_told_to_end() != 0)
        return by_signal;
    return bound.has_limit && !is_before(time, limit) ? by_limit : not_yet;
}

/* Says whether the run has to end, and by what; a warning is a reason only between two rounds. */
int32_t benchio_end_due(int32_t is_between_rounds, char *name, int32_t size)
{
    const enum end why = end_due(0);
    int number = benchio_told_to_end();

    if (why == not_yet && is_between_rounds && bound.is_running)
        number = benchio_is_warned();
    if (why == not_yet && number == 0)
        return 0;
    snprintf(name, (size_t)size, "%s", why == by_limit ? limit_name : benchio_signal_name(number));
    return why != not_yet || (is_between_rounds && bound.is_running);
}

/* Starts a thread that takes no signal but those of a crash: the others are for who calls the
 * libraries. Returns errno. */
int benchio_start_thread(void *(*work)(void *), size_t stack)
{
    static const int crashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS};
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error;

    sigfillset(&all);
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        sigdelset(&all, crashes[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, work, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void *remove_files(void *unused)
{
    (void)unused;
    if (watched.files != NULL)
        for (const char *name = watched.files; *name != '\0'; name += strlen(name) + 1)
            benchio_remove_family(name, watched.companions);
    return NULL;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    remove(path);
    return 0;
}

/* Removes the directories that are empty; the last of them, the run's, with what is in it where
 * nobody else does: the ranks that a launcher ends leave their files, and may make more of them. */
static void *remove_directories(void *unused)
{
    const char *last = NULL;

    (void)unused;
    if (watched.directories != NULL)
        for (const char *name = watched.directories; *name != '\0'; name += strlen(name) + 1) {
            rmdir(name);
            last = name;
        }
    for (int i = 0; i < 3 && removes_all && last != NULL && access(last, F_OK) == 0; i++)
        nftw(last, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    watched.is_done = 1;
    return NULL;
}

static void *report(void *unused)
{
    (void)unused;
    bound.report(&bound.notice);
    bound.has_reported = 1;
    return NULL;
}

/* Puts why this rank ends into words. */
static void describe(struct notice *notice)
{
    char who[256];

    if (bound.why == elsewhere)
        return; /* that rank has */
    if (bound.why == by_hang && watched.tells) {
        *notice = watched.met;
        return;
    }
    memset(notice, 0, sizeof *notice);
    notice->status = exit_time_limit;
    notice->rank = watched.rank;
    snprintf(notice->host, sizeof notice->host, "%s", watched.host);
    if (bound.why == inside) {
        notice->status = benchio_ended_in_words(notice->call, sizeof notice->call, who,
                                                sizeof who);
        snprintf(notice->path, sizeof notice->path, "%s",
                 watched.written[0] != '\0' ? watched.written : watched.place);
        snprintf(notice->message, sizeof notice->message, "%s, in '%s'%s%s", who, watched.phase,
                 watched.backend[0] == '\0' ? "" : " of ", watched.backend);
    } else if (bound.why == by_hang) {
        snprintf(notice->call, sizeof notice->call, "%s", watched.phase);
        snprintf(notice->message, sizeof notice->message, "no end after %d s", watched.seconds);
    } else {
        snprintf(notice->call, sizeof notice->call, "%s", bound.why == by_limit ? limit_name
                 : benchio_signal_name(benchio_told_to_end()));
    }
}

/* What this rank says of its end, in a line, and of what small writes meet. */
static void say(int is_note, int is_beside_tried)
{
    const struct notice *why = &bound.notice;
    char text[sizeof watched.failure + sizeof *why + 1024];
    int length, size = (int)sizeof text - 1024;
    ssize_t written;

    if (is_note)
        length = snprintf(text, (size_t)size, "benchio: note: rank %d on %s: %s: %s; the run had "
                          "ended before", (int)why->rank, why->host, why->call, why->message);
    else if (watched.failure[0] != '\0')
        length = snprintf(text, (size_t)size, "benchio: error: %s", watched.failure);
    else if (bound.why == inside || bound.why == elsewhere)
        length = snprintf(text, (size_t)size, "benchio: error: rank %d on %s: %s: %s: %s",
                          (int)why->rank, why->host, why->call, why->path, why->message);
    else
        length = snprintf(text, (size_t)size, "benchio: error: rank %d: %s: %s: %s%s%s",
                          watched.rank, watched.phase, watched.place,
                          bound.why == by_hang ? "" : "cut off by ",
                          bound.why == by_hang ? why->message : why->call,
                          bound.why == by_hang ? " (--phase-limit)"
                          : bound.why == by_limit ? " (--time-limit)" : "");
    length = length < size ? length : size - 1;
    if (watched.probes)
        length += benchio_met_in_words(text + length, (int)sizeof text - length - 1,
                                       is_beside_tried);
    text[length++] = '\n';
    written = write(STDERR_FILENO, text, (size_t)length);
    (void)written;
}

/* Looks, under the lock, whether the end has come. */
static enum end look(int has_notice)
{
    look_at_time();
    if (benchio_is_ended_inside())
        return inside;
    if (!bound.is_told && benchio_told_to_end() != 0) {
        bound.is_told = 1;
        bound.told_at = watched.looked_at;
    }
    if (!watched.is_armed)
        return not_yet;
    if (has_notice)
        return elsewhere;
    if (!is_before(watched.looked_at, watched.limit))
        return by_hang;
    return watched.may_be_cut ? end_due(1) : not_yet;
}

/* Waits for the end of this process, and says why it ends. */
static void wait_for_end(void)
{
    const struct timespec pause = {.tv_nsec = tick};
    int has_notice = 0;

    for (;;) {
        pthread_mutex_lock(&watched.lock);
        bound.why = look(has_notice);
        watched.is_over = bound.why != not_yet;
        pthread_mutex_unlock(&watched.lock); /* nobody changes what is watched any more */
        if (watched.is_over)
            break;
        if (has_notice)
            nanosleep(&pause, NULL);
        else
            has_notice = benchio_wait_for_notice(&bound.notice, tick / 1000000);
    }
    describe(&bound.notice);
}

/* Waits for the end; then the files go, as every rank's do, and after the delay this process. After
 * a hang a write is tried before, for the file may be what fills the filesystem. A library that has
 * ended this process has ended it alone, and one in which it met an error may let the others wait:
 * rank 0 is told, reports it, and clears up for all. */
static void *keep_watch(void *unused)
{
    int tries_beside, answers = 1, tells, ends_all, reports;
    size_t length;

    (void)unused;
    wait_for_end();
    if (bound.has_ended) {
        watched.probes = 0;
        say(1, 0);
        benchio_exit_at_once(bound.status);
    }
    if (bound.why != by_hang)
        watched.probes = 0;
    tells = bound.why == by_hang && watched.tells;
    tries_beside = watched.probes && !benchio_names_error(watched.failure);
    if (watched.probes) {
        answers = benchio_try_small_writes(tries_beside);
        length = strlen(bound.notice.message);
        if (tells)
            benchio_met_in_words(bound.notice.message + length,
                                 (int)(sizeof bound.notice.message - length), tries_beside);
    }
    benchio_start_thread(remove_files, stack_bytes);
    ends_all = tells || (bound.why >= inside && watched.failure[0] == '\0');
    removes_all = ends_all && watched.rank == 0;
    if (ends_all && (watched.rank == 0 || !benchio_send_notice(&bound.notice)))
        watched.delay = 0;
    reports = (tells || (bound.why != by_hang && watched.failure[0] == '\0'))
        && bound.report != NULL && benchio_start_thread(report, report_stack_bytes) == 0;
    for (unsigned left = watched.delay; left > 0;)
        left = sleep(left);
    if (reports)
        benchio_wait_for(&bound.has_reported, &bound.has_reported, 0, 500);
    if (!bound.has_reported)
        say(0, tries_beside);
    if (answers) { /* else that would not end either */
        benchio_start_thread(remove_directories, stack_bytes);
        benchio_wait_for(&watched.is_done, &watched.is_done, 0, removes_all ? 1000 : 100);
    }
    benchio_end_program();
    benchio_exit_at_once(watched.failure[0] != '\0' ? watched.met.status : bound.notice.status);
}

/* Starts the thread, unless there is one. Returns errno: without it a hang would have no end. */
int32_t benchio_start_watchdog(int32_t rank, const char *host)
{
    int error;

    watched.rank = rank;
    snprintf(watched.host, sizeof watched.host, "%s", host);
    watched.looked_at = now();
    error = watched.has_clock ? 0 : benchio_start_thread(keep_watch, stack_bytes);
    watched.has_clock = error == 0;
    benchio_catch_ends(watched.has_clock);
    return error;
}

/* A copy of texts, each ended by NUL, the last by two. */
static char *copy(const char *texts)
{
    const char *end = texts;
    char *new;

    while (*end != '\0')
        end += strlen(end) + 1;
    new = malloc((size_t)(end - texts) + 1);
    if (new != NULL)
        memcpy(new, texts, (size_t)(end - texts) + 1);
    return new;
}

/* Notes what an end would leave: files, with those whose names go on with `companions` unless that
 * is empty, and directories, each ended by NUL and the last by two; where a small write can be
 * tried; and the file that this rank writes, which another may have made, with the bytes that it is
 * to have; empty: none. They may not change while a limit runs. */
void benchio_guard(const char *files, const char *companions, const char *probe,
                   const char *directories, const char *written, int64_t bytes)
{
    snprintf(watched.companions, sizeof watched.companions, "%s", companions);
    snprintf(watched.written, sizeof watched.written, "%s", written);
    benchio_try_at(probe, written, bytes);
    free(watched.files);
    free(watched.directories);
    watched.files = copy(files);
    watched.directories = copy(directories);
}

/* Takes the lock of a process that goes on. Once its end has begun, that cannot be put off: the
 * caller waits for it. */
static void lock_watched(void)
{
    pthread_mutex_lock(&watched.lock);
    while (watched.is_over) {
        pthread_mutex_unlock(&watched.lock);
        pause();
        pthread_mutex_lock(&watched.lock);
    }
    look_at_time();
}

/* Arms the clock, and leaves the lock. */
static void arm(int32_t seconds, int32_t delay, int32_t probes, int32_t may_be_cut)
{
    watched.is_armed = 1;
    watched.limit = now();
    watched.limit.tv_sec += seconds;
    watched.delay = (unsigned)delay;
    watched.probes = probes;
    watched.may_be_cut = may_be_cut;
    pthread_mutex_unlock(&watched.lock);
}

/* Unless called again within so many seconds, remove the files and, after so many more of delay,
 * say in which phase of what this rank is, with what small writes meet if these are to be tried,
 * remove the directories that are empty, and end this process. Do the same when the run has to end. */
void benchio_watch(int32_t seconds, int32_t delay, const char *phase, const char *place,
                   const char *backend, int32_t probes)
{
    lock_watched();
    snprintf(watched.phase, sizeof watched.phase, "%s", phase);
    snprintf(watched.place, sizeof watched.place, "%s", place);
    snprintf(watched.backend, sizeof watched.backend, "%s", backend);
    watched.seconds = seconds;
    watched.failure[0] = '\0';
    watched.tells = 0;
    arm(seconds, delay, probes, 1);
}

/* The same of a rank that has met a failure, with the line of that. If it tells, it then lets rank 0
 * end the run. */
void benchio_watch_failed(int32_t seconds, int32_t delay, const char *failure,
                          const struct notice *met, int32_t probes, int32_t may_be_cut,
                          int32_t tells)
{
    lock_watched();
    snprintf(watched.failure, sizeof watched.failure, "%s", failure);
    watched.met = *met;
    watched.tells = tells;
    arm(seconds, delay, probes, may_be_cut);
}

/* Stops the clock. */
void benchio_rest(void)
{
    lock_watched();
    watched.failure[0] = '\0';
    watched.is_armed = 0;
    pthread_mutex_unlock(&watched.lock);
}

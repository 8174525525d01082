/* Tells rank 0, which has all results, why another rank ends: by a datagram, for whoever is ended
 * by a library can call MPI no more. A notice may be lost; the rank then says itself why it ends. */
#define _GNU_SOURCE

#include "benchio.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { most_addresses = 8 };

/* Where rank 0 listens, and the word that a notice begins with, or it is of another run. */
static struct place {
    uint64_t word;
    uint32_t address[most_addresses]; /* as IPv4 has it; 0: no more */
    uint16_t port;
} place;

static int listener = -1;

struct datagram {
    uint64_t word;
    struct notice notice;
};

/* Listens on this rank, and notes in `text`, for benchio_know_listener of all ranks, where. Where
 * that cannot be, nobody is told anything. */
void benchio_listen(void *text, int32_t size)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t length = sizeof here;
    struct ifaddrs *all = NULL;
    int number = 0;

    memset(text, 0, (size_t)size);
    memset(&place, 0, sizeof place);
    listener = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&here, sizeof here) != 0
        || getsockname(listener, (struct sockaddr *)&here, &length) != 0
        || getrandom(&place.word, sizeof place.word, 0) != sizeof place.word
        || getifaddrs(&all) != 0)
        return;
    for (struct ifaddrs *one = all; one != NULL && number < most_addresses; one = one->ifa_next)
        if (one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET)
            place.address[number++] = ((struct sockaddr_in *)one->ifa_addr)->sin_addr.s_addr;
    freeifaddrs(all);
    place.port = here.sin_port;
    memcpy(text, &place, sizeof place);
}

void benchio_know_listener(const void *text)
{
    memcpy(&place, text, sizeof place);
}

/* Sends a notice to rank 0. Returns whether anything has taken it. */
int benchio_send_notice(const struct notice *notice)
{
    const int sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct datagram message = {.word = place.word, .notice = *notice};
    int number = 0;

    for (int i = 0; i < most_addresses && place.address[i] != 0; i++) {
        const struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = place.port,
                                          .sin_addr.s_addr = place.address[i]};

        number += sendto(sender, &message, sizeof message, MSG_DONTWAIT,
                         (const struct sockaddr *)&there, sizeof there) == sizeof message;
    }
    if (sender >= 0)
        close(sender);
    return number > 0;
}

/* Waits so long, or until another rank says that it ends: returns whether it does. */
int benchio_wait_for_notice(struct notice *notice, int milliseconds)
{
    struct pollfd waiting = {.fd = listener, .events = POLLIN};
    struct datagram message;

    if (poll(&waiting, 1, milliseconds) != 1
        || recv(listener, &message, sizeof message, MSG_DONTWAIT) != sizeof message
        || message.word != place.word)
        return 0;
    *notice = message.notice;
    notice->host[sizeof notice->host - 1] = notice->call[sizeof notice->call - 1] = '\0';
    notice->path[sizeof notice->path - 1] = notice->message[sizeof notice->message - 1] = '\0';
    return 1;
}

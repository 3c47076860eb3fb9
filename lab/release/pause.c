/* The process that holds a pod's namespaces open: waits for its end, and reaps what is orphaned to it meanwhile. */

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    sigset_t handled;
    int number;

    sigemptyset(&handled);
    sigaddset(&handled, SIGCHLD);
    sigaddset(&handled, SIGINT);
    sigaddset(&handled, SIGTERM);
    /* As PID 1 a signal without a handler is ignored; blocked ones can still be waited for. */
    if (sigprocmask(SIG_BLOCK, &handled, NULL) != 0)
        return 1;
    for (;;) {
        if (sigwait(&handled, &number) != 0)
            return 1;
        if (number == SIGINT || number == SIGTERM)
            return 0;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

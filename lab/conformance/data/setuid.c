/* The image nonewprivs: set-uid root, it tells as whom it runs. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	printf("Effective uid: %d\n", geteuid());
	return 0;
}

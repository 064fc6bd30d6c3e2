/* mmfcheck prints the keys of its input, one a line, that may be in a filter, as "mmapfilter check
 * FILTER" does. Its exit status is the same: 0 if any are printed, 1 if none, 2 after an error.
 *
 *	mmfcheck [-vcqnp] FILTER < keys
 *
 *	-v  print the keys that are certainly not in the filter
 *	-c  print only how many keys are selected
 *	-q  print nothing, and stop at the first key selected
 *	-n  print the number of the line first
 *	-p  take each line as a key, whatever the filter records
 *
 * It reads only lines. It refuses a filter that records another way to read keys, since it would
 * miss the keys of that filter. */
#define MMF_IMPLEMENTATION
#define MMF_STATIC
#include "mmapfilter.h"

#include <stdio.h>
#include <time.h>

enum { BATCH = 4096, FIRST_BUFFER = 1 << 16 };

static int invert, count, quiet, number, plain;
static unsigned long long selected, lines;

static int fail(const char *path, const char *what) {
	fflush(stdout);
	fprintf(stderr, "mmfcheck: %s: %s\n", path, what);
	return 2;
}

/* print writes the selected keys of a batch. It returns whether no further key can change the outcome. */
static int print(const void *const *keys, const size_t *lens, size_t n, const uint8_t *found) {
	size_t i;
	for (i = 0; i < n; i++) {
		lines++;
		if (found[i] == invert)
			continue;
		selected++;
		if (quiet)
			return 1;
		if (count)
			continue;
		if (number)
			printf("%llu:", lines);
		fwrite(keys[i], 1, lens[i], stdout);
		putchar('\n');
	}
	return 0;
}

/* packed returns 1 if an input that begins with these bytes is packed by gzip or Zstandard, 0 if it is
 * not, and -1 if more bytes are needed to tell. */
static int packed(const char *buf, size_t n) {
	static const uint8_t magic[3][4] = {{0x1f, 0x8b}, {0x28, 0xb5, 0x2f, 0xfd}, {0x50, 0x2a, 0x4d, 0x18}};
	static const size_t length[3] = {2, 4, 4};
	int i, more = 0;
	for (i = 0; i < 3; i++) {
		size_t same = 0;
		while (same < n && same < length[i] && ((uint8_t)buf[same] & (i == 2 && same == 0 ? 0xf0 : 0xff)) == magic[i][same])
			same++;
		if (same == length[i])
			return 1;
		more |= same == n;
	}
	return more ? -1 : 0;
}

static int run(const mmf_filter *f) {
	static const void *keys[BATCH];
	static size_t lens[BATCH];
	static uint8_t found[BATCH];
	size_t size = FIRST_BUFFER, end = 0, n = 0;
	char *buf = (char *)malloc(size);
	int first = 1, err;
	ssize_t got;
	do {
		char *from = buf, *newline;
		if (!buf)
			return fail("standard input", "out of memory");
		if ((got = read(0, buf + end, size - end)) < 0)
			return fail("standard input", strerror(errno));
		end += (size_t)got;
		if (first) {
			int is = packed(buf, end);
			if (is > 0)
				return fail("standard input", "it is packed; unpack it first");
			if (is < 0 && got > 0)
				continue;
			first = 0;
		}
		for (;;) {
			newline = (char *)memchr(from, '\n', (size_t)(buf + end - from));
			if (newline || (got == 0 && from < buf + end)) {
				keys[n] = from;
				lens[n++] = (size_t)((newline ? newline : buf + end) - from);
			}
			if (n == BATCH || (n > 0 && !newline)) {
				if ((err = mmf_contains_batch(f, keys, lens, n, found)) < 0)
					return fail("lookup", mmf_strerror(err));
				if (print(keys, lens, n, found))
					return 0;
				n = 0;
			}
			if (!newline)
				break;
			from = newline + 1;
		}
		end = (size_t)(buf + end - from);
		memmove(buf, from, end);
		if (end == size)
			buf = (char *)realloc(buf, size *= 2);
		if (fflush(stdout) != 0) /* a person may be typing the keys */
			return fail("standard output", strerror(errno));
	} while (got > 0);
	free(buf);
	if (count && !quiet)
		printf("%llu\n", selected);
	if (fflush(stdout) != 0 || ferror(stdout))
		return fail("standard output", strerror(errno));
	return selected ? 0 : 1;
}

int main(int argc, char **argv) {
	struct timespec wait = {0, 1000000};
	mmf_filter *f;
	int option, err, status, tries;
	while ((option = getopt(argc, argv, "vcqnp")) != -1) {
		invert |= option == 'v';
		count |= option == 'c';
		quiet |= option == 'q';
		number |= option == 'n';
		plain |= option == 'p';
		if (option == '?')
			return 2;
	}
	if (optind != argc - 1) {
		fprintf(stderr, "usage: mmfcheck [-vcqnp] FILTER < keys\n");
		return 2;
	}
	/* A file opened below must not become the standard input or output. */
	while ((err = open("/dev/null", O_RDWR)) >= 0 && err <= 2)
		;
	if (err >= 0)
		close(err);
	if ((err = mmf_open(argv[optind], &f)) < 0)
		return fail(argv[optind], mmf_strerror(err));
	status = mmf_status(f);
	for (tries = 0; status == MMF_RECOVERING && tries < 10; tries++) { /* for a second in all */
		nanosleep(&wait, NULL);
		wait.tv_nsec *= 2;
		status = mmf_status(f);
	}
	if (status == MMF_UNRECOVERED || status == MMF_RECOVERING)
		return fail(argv[optind], "its writer has died; run: mmapfilter recover");
	if (*mmf_normalisation(f) && !plain)
		return fail(argv[optind], "it records that its keys are not lines (see mmapfilter info); -p takes lines as keys");
	status = run(f);
	mmf_close(f);
	return status;
}

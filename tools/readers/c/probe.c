/* probe is the program through which the tests of package readers, and TestKill (tools/kill), call
 * mmapfilter.h. Each function says what it reads and writes. A record is 4 bytes of length, and a key. */
#define MMF_IMPLEMENTATION
#define MMF_STATIC
#include "mmapfilter.h"

#include <stdio.h>

static int die(const char *what) {
	fprintf(stderr, "probe: %s\n", what);
	return 3;
}

/* records reads up to n records, into one buffer. It returns how many. */
static size_t records(const void **keys, size_t *lens, size_t n, uint8_t **buf, size_t *room) {
	size_t i, used = 0, at = 0;
	uint32_t len;
	for (i = 0; i < n && fread(&len, 4, 1, stdin) == 1; i++) {
		if (used + len > *room && !(*buf = (uint8_t *)realloc(*buf, *room = 2 * (used + len))))
			abort();
		if (len && fread(*buf + used, 1, len, stdin) != len)
			abort();
		lens[i] = len;
		used += len;
	}
	for (n = i, i = 0; i < n; at += lens[i++])
		keys[i] = *buf ? *buf + at : (const uint8_t *)"";
	return n;
}

/* answers FILTER HOW: a byte, 0 or 1, for each record. HOW is single, hash, hashes, batch or fixed. */
static int answers(const char *path, const char *how) {
	enum { N = 1000 };
	static const void *keys[N];
	static size_t lens[N];
	static uint64_t hashes[N];
	static uint8_t found[N];
	uint8_t *buf = NULL;
	size_t room = 0, n, i;
	mmf_filter *f;
	int err = mmf_open(path, &f);
	if (err < 0)
		return die(mmf_strerror(err));
	while ((n = records(keys, lens, N, &buf, &room)) > 0) {
		memset(found, 9, sizeof found);
		for (i = 0; i < n; i++)
			hashes[i] = mmf_hash(f, keys[i], lens[i]);
		if (!strcmp(how, "batch"))
			mmf_contains_batch(f, keys, lens, n, found);
		else if (!strcmp(how, "hashes"))
			mmf_contains_hashes(f, hashes, n, found);
		else if (!strcmp(how, "fixed")) /* the keys of one size that follow one another */
			for (i = 0; i < n;) {
				size_t m = 1;
				while (i + m < n && lens[i + m] == lens[i])
					m++;
				mmf_contains_fixed(f, keys[i], lens[i], m, found + i);
				i += m;
			}
		else
			for (i = 0; i < n; i++)
				found[i] = (uint8_t)(!strcmp(how, "hash") ? mmf_contains_hash(f, hashes[i]) : mmf_contains(f, keys[i], lens[i]));
		if (fwrite(found, 1, n, stdout) != n)
			return die("stdout");
	}
	free(buf);
	mmf_close(f);
	return 0;
}

/* hash: reads a seed of 8 bytes and a record, again and again; writes 8 bytes of hash for each. */
static int hash(void) {
	uint64_t seed, h;
	const void *key;
	size_t len, room = 0;
	uint8_t *buf = NULL;
	while (fread(&seed, 8, 1, stdin) == 1 && records(&key, &len, 1, &buf, &room) == 1) {
		/* in memory of its exact size, which a sanitizer guards */
		uint8_t *own = (uint8_t *)malloc(len ? len : 1);
		if (!own)
			abort();
		memcpy(own, key, len);
		h = mmf_xxh3(own, len, seed);
		free(own);
		if (fwrite(&h, 8, 1, stdout) != 1)
			return die("stdout");
	}
	free(buf);
	return 0;
}

/* ask looks up keys of 16 bytes, which are in hex and follow one another, many times, in batches and
 * one by one. For each key it prints 0 if one of the lookups said "certainly not", else 1. */
static void ask(const mmf_filter *f, const char *hex) {
	enum { MOST = 128, SIZE = 16, ROUNDS = 16 };
	uint8_t keys[MOST * SIZE], found[MOST], all[MOST];
	size_t i, n = strcspn(hex, "\n") / (2 * SIZE);
	int round;
	for (i = 0; i < n * SIZE; i++)
		keys[i] = (uint8_t)(((hex[2 * i] & 15) + (hex[2 * i] >> 6) * 9) << 4 | ((hex[2 * i + 1] & 15) + (hex[2 * i + 1] >> 6) * 9));
	memset(all, 1, sizeof all);
	for (round = 0; round < ROUNDS; round++) {
		mmf_contains_fixed(f, keys, SIZE, n, found);
		for (i = 0; i < n; i++)
			all[i] &= found[i] & (uint8_t)mmf_contains(f, keys + SIZE * i, SIZE);
	}
	for (i = 0; i < n; i++)
		putchar('0' + all[i]);
	putchar('\n');
}

/* session: a command a line, and an answer for each:
 *
 *	o and a path       the code of mmf_open; the other commands are about what it has opened
 *	s                  the status
 *	l                  the length
 *	d and a directory  0, once it is the working directory
 *	k and a key        whether the filter may have it, alone and in a batch
 *	x and keys         see ask */
static int session(void) {
	char line[4096];
	mmf_filter *f = NULL;
	while (fgets(line, sizeof line, stdin)) {
		size_t len = strcspn(line, "\n") - 1;
		const void *key = line + 1;
		uint8_t found = 9;
		switch (*line) {
		case 'o':
			line[1 + len] = 0;
			mmf_close(f);
			printf("%d\n", mmf_open(line + 1, &f));
			break;
		case 's':
			printf("%d\n", mmf_status(f));
			break;
		case 'd':
			line[1 + len] = 0;
			printf("%d\n", chdir(line + 1));
			break;
		case 'l':
			printf("%llu\n", (unsigned long long)mmf_len(f));
			break;
		case 'x':
			ask(f, line + 1);
			break;
		default:
			if (mmf_contains_batch(f, &key, &len, 1, &found) != 0 || found != mmf_contains(f, key, len))
				return die("the batch has another answer");
			printf("%d\n", found);
		}
		fflush(stdout);
	}
	mmf_close(f);
	return 0;
}

/* in_heap puts the parts that lookups read into memory of their exact size, which a sanitizer guards. */
static uint64_t *in_heap(const uint64_t **words, size_t bytes) {
	uint64_t *own = (uint64_t *)malloc(bytes);
	if (!own)
		abort();
	memcpy(own, *words, bytes);
	*words = own;
	return own;
}

/* look_up looks keys up in a file that may be damaged. The program aborts if the answers of a batch
 * differ from those of single lookups; a sanitizer also ends it if a load leaves the parts. */
static void look_up(mmf_filter *f) {
	enum { N = 300 };
	uint64_t i, h[N], *own[3];
	uint8_t found[N];
	own[0] = in_heap(&f->runtime, 4096);
	own[1] = in_heap(&f->stash, 12288);
	own[2] = in_heap(&f->region, f->head.region);
	for (i = 0; i < N; i++)
		h[i] = mmf_xxh3(&i, sizeof i, 0);
	h[0] = 0;
	h[1] = ~(uint64_t)0;
	mmf_contains_hashes(f, h, N, found);
	for (i = 0; i < N; i++)
		if (found[i] != mmf_contains_hash(f, h[i]))
			abort(); /* nothing changes the file, so both must agree */
	for (i = 0; i < 3; i++)
		free(own[i]);
}

/* opens: reads a path a line. For each it looks keys up, and prints the code of mmf_open and, if that
 * is 0, the status and the length. */
static int opens(void) {
	char line[4096];
	while (fgets(line, sizeof line, stdin)) {
		unsigned long long len = 0;
		mmf_filter *f;
		int err, status = 0;
		line[strcspn(line, "\n")] = 0;
		if ((err = mmf_open(line, &f)) == 0) {
			status = mmf_status(f);
			len = mmf_len(f);
			look_up(f);
		} else if (!strcmp(mmf_strerror(err), mmf_strerror(-1000))) {
			abort(); /* an error without a text */
		}
		mmf_close(f); /* before the answer: after it, the file may change */
		if (err < 0)
			printf("%d\n", err);
		else
			printf("%d %d %llu\n", err, status, len);
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "answers") && argc == 4)
		return answers(argv[2], argv[3]);
	if (!strcmp(what, "hash"))
		return hash();
	if (!strcmp(what, "opens"))
		return opens();
	if (!strcmp(what, "session"))
		return session();
	return die("what?");
}

/* stress is a reader that TestKill (tools/kill) starts: it looks up keys beside
 * writers that are killed and files that are recovered and replaced, and checks the answers against
 * the page of memory that the processes share.
 *
 *	stress FILTER PAGE SEED NAME=NUMBER...
 *
 * The names are those of words of the page, and of sizes: tools/kill/child_test.go has them. */
#define MMF_IMPLEMENTATION
#define MMF_STATIC
#include "mmapfilter.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

enum { KEYS = 64, MOST_ASKS = 2000, PAUSE = 16 };
enum { ABSENT, INSERTING, SYNCED, DELETING, STATES };

static uint64_t *page;
static uint64_t random_state;

static uint64_t get(uint64_t word) { return __atomic_load_n(page + word, __ATOMIC_SEQ_CST); }
static void count(uint64_t word, uint64_t n) { __atomic_fetch_add(page + word, n, __ATOMIC_SEQ_CST); }

static uint64_t random_below(uint64_t n) {
	uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return mmf_hi(z, n);
}

static uint64_t number(int argc, char **argv, const char *name) {
	size_t n = strlen(name);
	int i;
	for (i = 4; i < argc; i++)
		if (!strncmp(argv[i], name, n) && argv[i][n] == '=')
			return strtoull(argv[i] + n + 1, NULL, 10);
	fprintf(stderr, "stress: no %s\n", name);
	exit(2);
}

int main(int argc, char **argv) {
	uint64_t file_word, end_word, reopen_word, limit_word, key_words, lookups, nos, violations, family, copies, seed;
	struct stat st;
	int fd;
	if (argc < 4)
		return 2;
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	if ((fd = open(argv[2], O_RDWR)) < 0 || fstat(fd, &st) != 0)
		return 2;
	page = (uint64_t *)mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return 2;
	seed = random_state = strtoull(argv[3], NULL, 10);
	file_word = number(argc, argv, "file");
	end_word = number(argc, argv, "end");
	reopen_word = number(argc, argv, "reopen");
	limit_word = number(argc, argv, "limit");
	key_words = number(argc, argv, "keys");
	lookups = number(argc, argv, "lookups");
	nos = number(argc, argv, "nos");
	violations = number(argc, argv, "violations");
	family = number(argc, argv, "family");
	copies = number(argc, argv, "copies");

	while (!get(end_word)) {
		uint64_t file = get(file_word), reopen = get(reopen_word), asks = 1 + random_below(MOST_ASKS);
		mmf_filter *f;
		int err = mmf_open(argv[1], &f), status;
		if (err < 0) {
			fprintf(stderr, "VIOLATION: in C: mmf_open: %s\n", mmf_strerror(err));
			count(violations, 1);
			return 1;
		}
		status = mmf_status(f);
		while (asks-- > 0 && !get(end_word) && get(reopen_word) == reopen) {
			static uint64_t keys[KEYS][2], before[KEYS], ids[KEYS];
			static const void *pointers[KEYS];
			static size_t lens[KEYS];
			static uint8_t found[KEYS];
			uint64_t limit = get(limit_word), no = 0;
			int i, batch = random_below(2) == 0;
			for (i = 0; i < KEYS; i++) {
				uint64_t same = ids[i] = random_below(limit);
				if (same % family < copies)
					same -= same % family;
				keys[i][0] = seed;
				keys[i][1] = same * 0x9E3779B97F4A7C15u;
				pointers[i] = keys[i];
				lens[i] = 16;
				before[i] = get(key_words + ids[i]);
			}
			if (batch)
				mmf_contains_batch(f, pointers, lens, KEYS, found);
			for (i = 0; i < KEYS; i++) {
				uint64_t after;
				if (!batch) {
					before[i] = get(key_words + ids[i]);
					found[i] = (uint8_t)mmf_contains(f, keys[i], 16);
				}
				no += !found[i];
				after = get(key_words + ids[i]);
				if (get(file_word) != file)
					break;
				if (after != before[i] || after % STATES != SYNCED || found[i])
					continue;
				fprintf(stderr, "VIOLATION: in C: key %llu was synced, and not found (batch: %d, file %llu, status %d, then %d, hash %llx)\n",
					(unsigned long long)ids[i], batch, (unsigned long long)file, status, mmf_status(f), (unsigned long long)mmf_hash(f, keys[i], 16));
				count(violations, 1);
				return 1;
			}
			if (i < KEYS)
				break; /* a new file has replaced this one */
			if (status == MMF_SERVED)
				count(lookups, KEYS);
			count(nos, no);
			if (asks % PAUSE == 0 || status != MMF_SERVED) {
				struct pollfd in = {0, POLLIN, 0};
				struct timespec pause = {0, (long)random_below(300000)};
				if (poll(&in, 1, 0) != 0)
					return 1; /* the parent has ended */
				nanosleep(&pause, NULL);
				if ((status = mmf_status(f)) >= MMF_SUPERSEDED)
					break;
			}
		}
		mmf_close(f);
	}
	return 0;
}

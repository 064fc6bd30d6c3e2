// Package clients tests the server with clients of Redis that people use: go-redis, rueidis, redis-py,
// node-redis, redis-cli and redis-benchmark. It is a module of its own, so that no other module needs
// these clients.
//
// Each client plays the transcripts of package server, in each version of the protocol that it speaks:
// it sends the words of a command, and must make of the reply the value that the transcript has. Where
// a client has functions for commands, it plays calls.txt with these, too. Then the server is killed
// again and again under some of them: every write that was answered must be there.
//
// If a client is missing, its tests say NOT TESTED. The gate installs them: redis-tools and
// python3-redis of Debian, and what package.json names, below $NODE_PATH.
package clients

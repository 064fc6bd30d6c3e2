// Sends commands with node-redis: reads requests from its standard input, a line each, and writes replies.
//
// A request is {"call": false, "commands": [[word...]...]}; the reply is an array of values. The bytes of
// strings are the characters of the same number. An error is {"error": text}. With "call", commands are
// done by the functions that node-redis has for them.

'use strict';
const readline = require('node:readline');
const { createClient, RESP_TYPES } = require('redis');

const [port, version] = process.argv.slice(2, 4).map(Number);
const password = process.argv[4];

// options returns the options before ITEMS.
function options(words) {
  const found = {};
  for (let i = 0; i < words.length && words[i] !== 'ITEMS'; i++) {
    const name = words[i];
    found[name] = name === 'NOCREATE' || name === 'NONSCALING' ? true : Number(words[++i]);
  }
  return found;
}

const items = (words) => words.slice(words.indexOf('ITEMS') + 1);

const calls = (cf, bf) => ({
  'CF.RESERVE': (key, capacity, ...words) => cf.reserve(key, Number(capacity), options(words)),
  'CF.ADD': (key, item) => cf.add(key, item),
  'CF.ADDNX': (key, item) => cf.addNX(key, item),
  'CF.INSERT': (key, ...words) => cf.insert(key, items(words), options(words)),
  'CF.INSERTNX': (key, ...words) => cf.insertNX(key, items(words), options(words)),
  'CF.EXISTS': (key, item) => cf.exists(key, item),
  'CF.MEXISTS': (key, ...all) => cf.mExists(key, all),
  'CF.COUNT': (key, item) => cf.count(key, item),
  'CF.DEL': (key, item) => cf.del(key, item),
  'CF.INFO': (key) => cf.info(key),
  'CF.SCANDUMP': (key, at) => cf.scanDump(key, Number(at)).then(parts),
  'CF.LOADCHUNK': (key, at, chunk) => cf.loadChunk(key, Number(at), bytes(chunk)),
  'BF.RESERVE': (key, rate, capacity, ...words) => bf.reserve(key, Number(rate), Number(capacity), options(words)),
  'BF.ADD': (key, item) => bf.add(key, item),
  'BF.MADD': (key, ...all) => bf.mAdd(key, all),
  'BF.INSERT': (key, ...words) => bf.insert(key, items(words), options(words)),
  'BF.EXISTS': (key, item) => bf.exists(key, item),
  'BF.MEXISTS': (key, ...all) => bf.mExists(key, all),
  'BF.CARD': (key) => bf.card(key),
  'BF.INFO': (key) => bf.info(key),
  'BF.SCANDUMP': (key, at) => bf.scanDump(key, Number(at)).then(parts),
  'BF.LOADCHUNK': (key, at, chunk) => bf.loadChunk(key, Number(at), bytes(chunk)),
});

const parts = ({ iterator, chunk }) => [iterator, chunk];

const bytes = (text) => Buffer.from(text, 'latin1');

// plain returns a value in which strings have a character for each byte.
function plain(value) {
  if (Buffer.isBuffer(value)) return value.toString('latin1');
  if (value instanceof Error) return { error: value.message };
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Object || typeof value === 'object' && value) {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]));
  }
  return value;
}

async function main() {
  const socket = { host: '127.0.0.1', port, reconnectStrategy: 20 };
  const root = createClient({ RESP: version, socket, password });
  root.on('error', () => {}); // the connection: commands report it
  await root.connect();
  const client = root.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  const table = calls(client.cf, client.bf);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { call, commands } = JSON.parse(line);
    const sent = commands.map(([name, ...words]) => (call ? table[name](...words) : client.sendCommand([name, ...words].map(bytes))));
    const values = await Promise.all(sent.map((s) => s.catch((e) => e)));
    console.log(JSON.stringify(values.map(plain)));
  }
  root.destroy();
}

main();

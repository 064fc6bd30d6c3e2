package main

// experiments are the commands, in the order of the paper.
var experiments = []experiment{}

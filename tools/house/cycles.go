package main

import (
	"maps"
	"slices"
)

// A cycle describes how the files of a package depend on one another.
type cycle struct {
	arrows   int      // pairs of files of which one uses names of the other
	inCycles int      // arrows between files that also depend on each other the other way
	files    []string // those that are in a cycle
}

// cyclesOf finds the strongly connected parts of the graph of files (Tarjan, "Depth-First
// Search and Linear Graph Algorithms", 1972).
func cyclesOf(uses map[string]sets) (c cycle) {
	index, low, part := map[string]int{}, map[string]int{}, map[string]int{}
	var stack []string
	parts := 0
	var visit func(file string)
	visit = func(file string) {
		index[file] = len(index) + 1
		low[file] = index[file]
		stack = append(stack, file)
		for _, used := range slices.Sorted(maps.Keys(uses[file])) {
			if index[used] == 0 {
				visit(used)
				low[file] = min(low[file], low[used])
			} else if part[used] == 0 {
				low[file] = min(low[file], index[used])
			}
		}
		if low[file] != index[file] {
			return
		}
		parts++
		var own []string
		for part[file] == 0 {
			top := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			part[top] = parts
			own = append(own, top)
		}
		if len(own) > 1 {
			slices.Sort(own)
			c.files = append(c.files, own...)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(uses)) {
		if index[file] == 0 {
			visit(file)
		}
	}
	for file, others := range uses {
		for used := range others {
			c.arrows++
			if part[file] == part[used] {
				c.inCycles++
			}
		}
	}
	return c
}

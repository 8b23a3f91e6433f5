package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
)

// completeGrammar are the commands for which grammar returns all commands.
var completeGrammar = []string{"complete", "config", "man"}

// grammar returns a pointer to the grammar of the arguments. If the first argument is not a command or is in
// completeGrammar, or if needsAll returns true, the grammar is of type commands. Otherwise it is a struct with
// the common flags and the command of the first argument, because kong needs 10 ms to read all commands.
func grammar(args []string) reflect.Value {
	all := reflect.TypeFor[commands]()
	if len(args) == 0 || slices.Contains(completeGrammar, args[0]) || needsAll(args) {
		return reflect.New(all)
	}
	var fields []reflect.StructField
	found := false
	for f := range all.Fields() {
		_, command := f.Tag.Lookup("cmd")
		if selected := command && commandName(f) == args[0]; selected || !command {
			fields = append(fields, f)
			found = found || selected
		}
	}
	if !found {
		return reflect.New(all)
	}
	return reflect.New(reflect.StructOf(fields))
}

// needsAll reports whether the arguments request help or have a short flag, or whether the arguments or the
// environment name a configuration file.
func needsAll(args []string) bool {
	if _, set := os.LookupEnv("CERTVAULT_CONFIG"); set {
		return true
	}
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == "help" || arg == "--help" || strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") || strings.HasPrefix(arg, "--config")
	})
}

// commandName returns the name of the command of a field of commands.
func commandName(f reflect.StructField) string {
	if name := f.Tag.Get("name"); name != "" {
		return name
	}
	return strings.ToLower(f.Name)
}

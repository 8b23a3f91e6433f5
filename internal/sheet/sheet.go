// Package sheet owns tables as people keep them: reading one from a spreadsheet
// or a CSV file however a program saved it, finding out what its columns and
// dates mean, and writing one that a spreadsheet opens without harm. It knows
// nothing of what the rows are for.
package sheet

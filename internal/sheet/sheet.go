// Package sheet reads and writes the tables of spreadsheets. It reads Excel and CSV files from
// different programs, detects the meaning of columns and the order of dates, writes CSV that is safe
// to open in a spreadsheet, and writes empty lists as Excel workbooks. It does not check whether a row
// describes a valid certificate.
package sheet

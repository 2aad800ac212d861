"""Tools of the application: toolsets and functions, their arguments, approval, and the execution of calls."""

"""Tools of the application: functions, what is offered of them, and the loop that carries calls out."""

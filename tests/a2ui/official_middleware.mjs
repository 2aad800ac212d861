// Runs the official middleware around an agent that answers with given events; prints its input and its events.
import {readFileSync} from 'node:fs';
import {A2UIMiddleware} from '@ag-ui/a2ui-middleware';
import {AbstractAgent} from '@ag-ui/client';
import {from} from 'rxjs';

const {config, input, events} = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const seen = {};

class Scripted extends AbstractAgent {
  run(received) {
    seen.input = received;
    return from(events);
  }
}

seen.events = [];
const stream = new A2UIMiddleware(config).run(input, new Scripted());
stream.subscribe({
  next: event => seen.events.push(event),
  error: error => { throw error; },
  complete: () => console.log(JSON.stringify(seen)),
});
